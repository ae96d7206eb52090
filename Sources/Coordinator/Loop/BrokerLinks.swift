import CallCore
import Glibc
import SignalingProtocol
import Support

/// A coordinator's connections to all brokers. A single thread waits for all of them.
final class BrokerLinks {
    private let links: [BrokerLink]
    /// Ends the wait of the loop when a connection was made.
    private let wakeUp: WakeUp

    init(_ configuration: Coordinator.Configuration, _ service: CallService, _ log: Log) {
        guard let wakeUp = WakeUp() else { preconditionFailure("the process has no descriptors left at its start") }
        self.wakeUp = wakeUp
        links = configuration.brokers.indices.map { BrokerLink($0, configuration, service, log, wakeUp) }
    }

    subscript(broker: BrokerIndex) -> BrokerLink { links[broker] }

    /// Called when the connection to a broker is lost or could not be made.
    var onLost: (BrokerIndex) -> Void = { _ in } {
        didSet { for link in links { link.onLost = { [onLost, broker = link.broker] in onLost(broker) } } }
    }

    var backlog: Int { links.map(\.backlog).reduce(0, +) }

    /// The number of consecutive refusals of publications at the connected broker that refuses least.
    var unauthorizedInARow: Int { links.compactMap(\.unauthorizedInARow).min() ?? 0 }

    func sendDisabledUsers() { for link in links { link.sendDisabledUsers() } }

    func disconnect() { for link in links { link.disconnect() } }

    /// Waits for messages of any broker, or for a descriptor in `others`.
    func receive(milliseconds: Int32, reads: Bool, others: inout [pollfd]) -> [InboundMessage] {
        let count = others.count
        for link in links { others.append(link.prepareToWait(reads: reads)) }
        others.append(pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0))
        defer { others.removeLast(links.count + 1) }
        let isBusy = links.contains { $0.hasWork(reads: reads) }
        _ = poll(&others, nfds_t(others.count), isBusy ? 0 : max(0, milliseconds))
        if others[count + links.count].revents != 0 { wakeUp.clear() }
        var messages: [InboundMessage] = []
        for (place, link) in links.enumerated() {
            let received = link.receive(others[count + place].revents, reads: reads)
            // With a single broker no array is copied.
            if messages.isEmpty { messages = received } else { messages += received }
        }
        return messages
    }

    /// Whether the last read of a broker's messages reached its bound, so that more messages probably wait.
    var mayHoldMore: Bool { links.contains { $0.hasWork(reads: true) } }

    /// Returns the brokers' answers to the loop's requests.
    func takeAnswers() -> [CoordinatorLoop.Event] { links.flatMap { $0.takeAnswers() } }

    /// Takes out the receipts that the brokers have acknowledged.
    func takeConfirmed() -> [OutboundMessage] { links.flatMap { $0.takeConfirmed() } }

    func countRefusals() { for link in links { link.countRefusals() } }
}
