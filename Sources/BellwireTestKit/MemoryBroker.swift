import BellwireClientCore
import Coordinator
import Synchronization

/// An MQTT broker in memory with the properties that clients and a coordinator need: a single connection for each
/// client id, subscriptions, wills, and the order of messages.
final class MemoryBroker: Sendable {
    fileprivate struct Client {
        let clientID: String
        let topics: Set<String>
        let will: BellwireOutgoingMessage?
        let events: @Sendable (BellwireTransportEvent) -> Void
    }

    fileprivate struct State {
        var clients: [Int: Client] = [:]
        var lastNumber = 0
        var isOffline = false
        /// The messages for the coordinator, the only shared subscriber.
        var inbox: [InboundMessage] = []
        var wake: @Sendable () -> Void = {}
    }

    private let state = Mutex(State())

    // MARK: Clients

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let client = Client(
            clientID: request.clientID, topics: Set(request.topics), will: request.will, events: events)
        let (number, former) = state.withLock { state -> (Int?, [Client]) in
            guard !state.isOffline else { return (nil, []) }
            let former = state.remove { $0.clientID == client.clientID }
            state.lastNumber += 1
            state.clients[state.lastNumber] = client
            return (state.lastNumber, former)
        }
        for other in former {
            other.events(.closed(BellwireTransportError(.takenOver, "another connection has this id")))
        }
        guard let number else { throw BellwireTransportError(.unreachable, "the service is offline") }
        return MemoryConnection(number: number, broker: self)
    }

    func publish(_ message: BellwireOutgoingMessage, from number: Int) {
        let wake = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.clients[number] != nil else { return nil }
            state.inbox.append(InboundMessage(topic: message.topic, payload: message.payload))
            return state.wake
        }
        wake?()
    }

    /// Closes the connection like a DISCONNECT: the will is dropped.
    func close(_ number: Int) {
        let client = state.withLock { $0.clients.removeValue(forKey: number) }
        client?.events(.closed(BellwireTransportError(.lost(isClean: false), "disconnected")))
    }

    // MARK: The network

    func goOffline() {
        state.withLock { $0.isOffline = true }
        lose { _ in true }
    }

    func goOnline() { state.withLock { $0.isOffline = false } }

    func breakConnections(of user: String) {
        let prefix = UserID(user).map { Topics.encode($0) + "/" } ?? ""
        lose { $0.clientID.hasPrefix(prefix) }
    }

    private func lose(_ isLost: (Client) -> Bool) {
        let (lost, wake) = state.withLock { ($0.remove(isLost), $0.wake) }
        wake()
        for client in lost {
            client.events(.closed(BellwireTransportError(.lost(isClean: false), "the network is gone")))
        }
    }

    // MARK: The coordinator

    func setWake(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

    func takeInbox() -> [InboundMessage] {
        state.withLock { state in
            defer { state.inbox = [] }
            return state.inbox
        }
    }

    func deliver(_ messages: [OutboundMessage]) {
        for message in messages {
            let receivers = state.withLock { state in
                state.clients.sorted { $0.key < $1.key }.map(\.value).filter { $0.topics.contains(message.topic) }
            }
            for receiver in receivers { receiver.events(.received(payload: message.payload, isRetained: false)) }
        }
    }
}

extension MemoryBroker.State {
    /// Removes clients, and publishes their wills.
    fileprivate mutating func remove(_ isGone: (MemoryBroker.Client) -> Bool) -> [MemoryBroker.Client] {
        let gone = clients.filter { isGone($0.value) }.sorted { $0.key < $1.key }
        for (number, client) in gone {
            clients[number] = nil
            if let will = client.will { inbox.append(InboundMessage(topic: will.topic, payload: will.payload)) }
        }
        return gone.map(\.value)
    }
}

private struct MemoryConnection: BellwireTransportConnection {
    let number: Int
    let broker: MemoryBroker

    func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
        broker.publish(message, from: number)
    }

    func close() async { broker.close(number) }
}
