import Basics
import BellwireClientCore
import Dispatch
import Foundation
import MQTTProtocol
import Network

/// An `MQTTSession` over a connection of Network.framework.
///
/// Sendable: all variables belong to `queue`, except `outbox`, which has a lock of its own.
final class NetworkConnection: BellwireTransportConnection, @unchecked Sendable {
    typealias Explain = @Sendable (MQTTError) -> BellwireTransportError

    /// The numbers of messages that wait to be sent or acknowledged, and the state of the connection, for code that
    /// runs outside `queue`.
    private struct Outbox {
        var backlog = 0
        /// The messages that `queue` has not taken yet.
        var queued = 0
        var largestPacket = 0
        var isOver = false
    }

    /// The bounds, in milliseconds where no unit is given.
    private enum Bounds {
        /// The bound on messages that may wait for the broker.
        static let mostBacklog = 4_096
        static let bytesPerRead = 64 * 1024
        static let timerInterval = 1_000
        /// How long `close` waits before DISCONNECT.
        static let closing = 1_500
        /// The longest time of `close`, DISCONNECT included: until the broker has closed the connection. With QoS 0
        /// nothing else says that the broker has the last messages.
        static let parting = 1_800
    }

    private let session: MQTTSession
    private let broker: BrokerAddress
    private let topics: [String]
    private let qos: QoS
    private let connection: NWConnection
    private let queue: DispatchQueue
    private let events: @Sendable (BellwireTransportEvent) -> Void
    private let explain: Explain
    private let started = ContinuousClock.now
    private let outbox = Mutex(Outbox())
    private var timer: (any DispatchSourceTimer)?
    /// Called once: with nil when the connection is open, or with the error of the failed attempt.
    private var opened: ((BellwireTransportError?) -> Void)?
    private var isOpen = false
    private var isOver = false
    private var isReady = false
    private var isSending = false
    private var isClosing = false
    /// Whether DISCONNECT was sent, after which no packet may follow (MQTT 5, section 3.14.4).
    private var hasParted = false
    /// The subscriptions that the broker has not granted; nil before CONNACK.
    private var ungranted: Set<Int32>?
    private var arrived: [MQTTMessage] = []
    private var closeWaiters: [() -> Void] = []

    private init(
        _ settings: MQTTSession.Configuration, _ topics: [String], _ qos: QoS,
        _ events: @escaping @Sendable (BellwireTransportEvent) -> Void, _ explain: @escaping Explain
    ) throws(MQTTError) {
        session = MQTTSession(settings)
        try session.check()
        broker = settings.broker
        (self.topics, self.qos, self.events, self.explain) = (topics, qos, events, explain)
        queue = DispatchQueue(label: "org.bellwire.connection")
        guard let number = UInt16(exactly: broker.port), let port = NWEndpoint.Port(rawValue: number) else {
            throw MQTTError(kind: .invalid, message: "\(broker): no such port")
        }
        let tcp = NWProtocolTCP.Options()
        tcp.noDelay = true
        let tls = broker.isTLS ? try trustedTLS(settings.certificateAuthorityFile, queue) : nil
        connection = NWConnection(
            to: .hostPort(host: NWEndpoint.Host(broker.host), port: port), using: NWParameters(tls: tls, tcp: tcp))
    }

    /// Connects, for `MQTTTransport.connect`. `explain` makes the error for the SDK.
    static func connect(
        _ settings: MQTTSession.Configuration, _ topics: [String], _ qos: QoS,
        events: @escaping @Sendable (BellwireTransportEvent) -> Void, _ explain: @escaping Explain
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let made: NetworkConnection
        do throws(MQTTError) {
            made = try NetworkConnection(settings, topics, qos, events, explain)
        } catch {
            throw explain(error)
        }
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in made.start { waiter.resume(returning: $0) } }
        } onCancel: {
            made.queue.async { made.end(Self.givenUp, isOwn: true) }
        }
        if let failure { throw failure }
        return made
    }

    private var now: Int64 { (ContinuousClock.now - started).milliseconds }

    private func start(_ opened: @escaping @Sendable (BellwireTransportError?) -> Void) {
        queue.async { [self] in
            guard !isOver else { return opened(explain(Self.givenUp)) }
            self.opened = opened
            // The handlers hold this object until `end`, as long as the connection lives.
            connection.stateUpdateHandler = { self.became($0) }
            connection.viabilityUpdateHandler = { isViable in if !isViable { self.turn { self.ask() } } }
            connection.start(queue: queue)
            let timer = DispatchSource.makeTimerSource(queue: queue)
            timer.schedule(
                deadline: .now() + .milliseconds(Bounds.timerInterval), repeating: .milliseconds(Bounds.timerInterval))
            timer.setEventHandler { self.turn { () throws(MQTTError) in try self.session.keepAlive(self.now) } }
            timer.resume()
            self.timer = timer
        }
    }

    private func became(_ state: NWConnection.State) {
        switch state {
        case .ready:
            guard !isReady else { return }
            isReady = true
            turn { self.session.begin(self.now) }
            receive()
        case .waiting(let error), .failed(let error): end(error)
        case .cancelled: end(MQTTError(kind: .lost, message: "the connection was cancelled"))
        default: break
        }
    }

    /// Runs a part of the connection's work, and sends what follows from it. An error ends the connection.
    private func turn(_ work: () throws(MQTTError) -> Void) {
        guard isReady, !isOver else { return }
        do throws(MQTTError) {
            try work()
            try subscribe()
            send()
        } catch {
            end(error)
        }
    }

    // MARK: Receiving

    private func receive() {
        connection.receive(minimumIncompleteLength: 1, maximumLength: Bounds.bytesPerRead) {
            data, _, isComplete, error in
            guard !self.isOver else { return }
            self.turn { () throws(MQTTError) in
                if let data, !data.isEmpty {
                    self.session.input.append { $0.append(contentsOf: data) }
                    self.session.hasReceived(self.now)
                    try self.take()
                }
                if isComplete { throw self.session.ended() }
            }
            if let error { self.end(error) } else if !self.isOver { self.receive() }
        }
    }

    private func take() throws(MQTTError) {
        // Messages that came before the end of the connection count.
        defer { tellArrived() }
        repeat {
            defer { arrived += session.takeMessages() }
            try session.take()
        } while session.mayHoldMore
    }

    /// Tells the SDK of messages. Messages that come before the connection is open wait for that.
    private func tellArrived() {
        guard isOpen else { return }
        for message in arrived { events(.received(payload: message.payload, isRetained: message.retain)) }
        arrived = []
    }

    /// Subscribes to all topics after CONNACK. The connection is open when the broker has granted all subscriptions.
    private func subscribe() throws(MQTTError) {
        guard session.state == .connected, !isOpen else { return }
        if let open = ungranted {
            ungranted = open.subtracting(session.acknowledged)
            session.forgetAcknowledged()
        } else {
            var outstanding: Set<Int32> = []
            for topic in topics { outstanding.insert(try session.subscribe(topic, qos: qos)) }
            ungranted = outstanding
        }
        guard ungranted?.isEmpty == true else { return }
        isOpen = true
        outbox.withLock { $0.largestPacket = session.maximumPacketSize }
        opened?(nil)
        opened = nil
        tellArrived()
    }

    // MARK: Sending

    private func send() {
        outbox.withLock { $0.backlog = session.backlog }
        guard !isSending, !isOver, !hasParted else { return }
        session.isFlushing()
        guard !session.output.isEmpty else { return session.hasFlushed(now) }
        isSending = true
        let bytes = session.output.read { Data($0) }
        session.output.take(bytes.count)
        connection.send(
            content: bytes,
            completion: .contentProcessed { error in
                self.isSending = false
                if let error { return self.end(error) }
                self.session.hasSent(self.now)
                self.turn {}
            })
    }

    func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
        let (isOver, problem) = outbox.withLock { outbox -> (Bool, String?) in
            guard !outbox.isOver else { return (true, nil) }
            guard message.packetSize <= outbox.largestPacket else {
                return (false, "the message is larger than the broker accepts")
            }
            guard outbox.backlog + outbox.queued < Bounds.mostBacklog else {
                return (false, "\(Bounds.mostBacklog) messages wait for the broker")
            }
            outbox.queued += 1
            return (false, nil)
        }
        // A lost connection drops the message.
        if isOver { return }
        if let problem { throw BellwireTransportError(.invalid, problem) }
        queue.async { [self] in
            // Both counts change together, so that the bound holds at each moment.
            defer {
                outbox.withLock { outbox in
                    outbox.queued -= 1
                    outbox.backlog = session.backlog
                }
            }
            guard !isClosing else { return }
            turn { () throws(MQTTError) in
                try session.publish(
                    MQTTMessage(
                        topic: message.topic, payload: message.payload, qos: qos,
                        expirySeconds: message.expirySeconds))
            }
        }
    }

    func probe() { queue.async { self.turn { self.ask() } } }

    private func ask() { _ = session.ask(now) }

    // MARK: The end

    func close() async {
        await withCheckedContinuation { waiter in
            queue.async { [self] in
                guard !isOver else { return waiter.resume() }
                closeWaiters.append { waiter.resume() }
                guard !isClosing else { return }
                isClosing = true
                let start = DispatchTime.now()
                finish(by: start + .milliseconds(Bounds.closing), and: start + .milliseconds(Bounds.parting))
            }
        }
    }

    /// Sends DISCONNECT when the messages are sent, with QoS 1 acknowledged, and at `deadline` at the latest. Waits
    /// until the broker closes the connection, and until `end` at the latest.
    private func finish(by deadline: DispatchTime, and end: DispatchTime) {
        guard !isOver else { return }
        guard session.backlog == 0 && session.output.isEmpty && !isSending || DispatchTime.now() >= deadline else {
            return queue.asyncAfter(deadline: .now() + .milliseconds(10)) { self.finish(by: deadline, and: end) }
        }
        session.appendDisconnect()
        hasParted = true
        let bytes = session.output.read { Data($0) }
        session.output.take(bytes.count)
        connection.send(content: bytes, contentContext: .finalMessage, completion: .contentProcessed { _ in })
        // The broker closes the connection when the broker has read all bytes.
        queue.asyncAfter(deadline: end) { self.end(Self.disconnected) }
    }

    private static let disconnected = MQTTError(kind: .lost, message: "disconnected")
    private static let givenUp = MQTTError(kind: .lost, message: "given up")

    /// Handshakes that the other side has broken off, as a load balancer without a broker does (`errSSLClosedGraceful`,
    /// `errSSLClosedAbort`, `errSSLClosedNoNotify`, `errSSLNetworkTimeout`): another attempt may succeed.
    private static let brokenHandshakes: Set<Int32> = [-9805, -9806, -9816, -9853]

    private func end(_ error: NWError) {
        var kind = isReady ? MQTTError.Kind.lost : .unreachable
        let reason: String
        switch error {
        case .posix(let code): reason = String(cString: strerror(code.rawValue))
        case .dns: reason = "no address of \(broker.host) is known"
        case .tls(let status):
            if !isReady { kind = Self.brokenHandshakes.contains(Int32(status)) ? .unreachable : .tls }
            reason = "TLS fails with status \(status)"
        default: reason = "\(error)"
        }
        end(MQTTError(kind: kind, message: "\(broker): \(reason)"))
    }

    /// Ends the connection. `isOwn` says that this side has given up, so that the broker is not suspected.
    private func end(_ error: MQTTError, isOwn: Bool = false) {
        guard !isOver else { return }
        isOver = true
        let wasConnecting = isReady && session.state == .connecting && !isOwn
        session.close(error.message)
        outbox.withLock { $0.isOver = true }
        timer?.cancel()
        connection.stateUpdateHandler = nil
        connection.viabilityUpdateHandler = nil
        connection.cancel()
        if isOpen {
            events(.closed(explain(isClosing ? Self.disconnected : error)))
        } else {
            opened?(explain(wasConnecting ? error.beforeConnectAnswer(broker) : error))
            opened = nil
        }
        for waiter in closeWaiters { waiter() }
        closeWaiters = []
    }
}
