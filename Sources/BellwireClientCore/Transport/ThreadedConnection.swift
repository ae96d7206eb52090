import Synchronization

/// An MQTT client that wants one thread of its own, which it blocks: from the first packet to the loss of its connection.
package protocol ThreadedClient: AnyObject {
    /// The broker has granted all subscriptions.
    var isSubscribed: Bool { get }
    /// How many messages the broker has not acknowledged.
    var backlog: Int { get }
    /// What the broker takes, in bytes, once it is subscribed.
    var largestPacket: Int { get }

    /// What has arrived and was not taken yet.
    var received: [TransportEvent] { get set }

    /// Waits for the broker, so long at most, or until it is woken, and does what there is to do.
    func wait(milliseconds: Int32) throws(TransportError)
    /// Sends them in this order.
    func publish(_ messages: [OutgoingMessage]) throws(TransportError)
    /// Asks the broker for a sign of life; nothing where that is not needed.
    func probe() throws(TransportError)
    /// Says DISCONNECT when the broker has what was published, and waits for both: less than two seconds.
    func disconnect()
}

extension ThreadedClient {
    package func probe() {}
}

/// A connection and the thread that drives it. What others want waits here until the thread takes it.
package final class ThreadedConnection: TransportConnection {
    package typealias Wake = @Sendable () -> Void
    package typealias Make = @Sendable () throws(TransportError) -> any ThreadedClient
    /// Runs something on a new thread; false when there is none.
    package typealias ThreadStarter = @Sendable (_ body: @escaping @Sendable () -> Void) -> Bool
    typealias Opened = @Sendable (TransportError?) -> Void

    private struct State {
        var outgoing: [OutgoingMessage] = []
        var backlog = 0
        var largestPacket = 0
        var wantsProbe = false
        var isClosing = false
        var isOver = false
        /// To be told, once, whether the connection came about.
        var opened: Opened?
        var closeWaiters: [@Sendable () -> Void] = []
    }

    private let make: Make
    private let wake: Wake
    private let events: @Sendable (TransportEvent) -> Void
    private let state = Mutex(State())

    /// Messages that wait for the broker; the thread takes them at once.
    package static let mostBacklog = 4_096
    /// A client's own timers want a turn this often, in milliseconds.
    private static let longestWait: Int32 = 1_000
    private static let givenUp = TransportError(.lost(isClean: false), "given up")

    private init(_ make: @escaping Make, _ wake: @escaping Wake, _ events: @escaping @Sendable (TransportEvent) -> Void)
    {
        (self.make, self.wake, self.events) = (make, wake, events)
    }

    /// A transport's `connect`: `make` is called on the thread, and may block; `wake` ends a client's `wait`, from any thread.
    package static func connect(
        thread: ThreadStarter, wake: @escaping Wake, events: @escaping @Sendable (TransportEvent) -> Void,
        make: @escaping Make
    ) async throws(TransportError) -> any TransportConnection {
        let connection = ThreadedConnection(make, wake, events)
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in connection.start(thread) { waiter.resume(returning: $0) } }
        } onCancel: {
            connection.abandon()
        }
        if let failure { throw failure }
        return connection
    }

    private func start(_ thread: ThreadStarter, _ opened: @escaping Opened) {
        let isAbandoned = state.withLock { state in
            state.opened = opened
            return state.isClosing
        }
        if isAbandoned {
            answer(Self.givenUp)
        } else if !thread({ self.run() }) {
            answer(TransportError(.unreachable, "no thread for the connection"))
        }
    }

    /// Nobody waits for the connection any more. The thread may be looking a name up, and notices later.
    private func abandon() {
        state.withLock { $0.isClosing = true }
        wake()
        answer(Self.givenUp)
    }

    /// Returns false when nobody waits.
    @discardableResult
    private func answer(_ error: TransportError?) -> Bool {
        let opened = state.withLock { state in
            defer { state.opened = nil }
            return state.opened
        }
        opened?(error)
        return opened != nil
    }

    package func publish(_ message: OutgoingMessage) throws(TransportError) {
        let problem = state.withLock { state -> String? in
            guard !state.isOver, !state.isClosing else { return nil }
            guard message.packetSize <= state.largestPacket else {
                return "the broker takes no packet of so many bytes"
            }
            guard state.backlog + state.outgoing.count < Self.mostBacklog else {
                return "\(Self.mostBacklog) messages wait for the broker"
            }
            state.outgoing.append(message)
            return nil
        }
        if let problem { throw TransportError(.invalid, problem) }
        wake()
    }

    package func probe() {
        state.withLock { $0.wantsProbe = true }
        wake()
    }

    package func close() async {
        await withCheckedContinuation { waiter in
            let isOver = state.withLock { state in
                state.isClosing = true
                if !state.isOver { state.closeWaiters.append { waiter.resume() } }
                return state.isOver
            }
            if isOver { waiter.resume() } else { wake() }
        }
    }

    // MARK: The thread

    private func run() {
        var isOpen = false
        var end = TransportError(.lost(isClean: false), "disconnected")
        do throws(TransportError) { try serve(&isOpen) } catch { end = error }
        let waiters = state.withLock { state in
            (state.isOver, state.outgoing) = (true, [])
            defer { state.closeWaiters = [] }
            return state.closeWaiters
        }
        if isOpen { events(.closed(end)) } else { answer(end) }
        for waiter in waiters { waiter() }
    }

    private func serve(_ isOpen: inout Bool) throws(TransportError) {
        let client = try make()
        while !state.withLock(\.isClosing) {
            // What arrived before the end counts.
            defer { if isOpen { tell(client) } }
            try client.wait(milliseconds: Self.longestWait)
            guard client.isSubscribed else { continue }
            if !isOpen { isOpen = open(client.largestPacket) }
            try send(client)
        }
        if isOpen { try? send(client) }
        client.disconnect()
    }

    private func tell(_ client: any ThreadedClient) {
        let arrived = client.received
        client.received = []
        for event in arrived { events(event) }
    }

    private func open(_ largestPacket: Int) -> Bool {
        state.withLock { $0.largestPacket = largestPacket }
        return answer(nil)
    }

    private func send(_ client: any ThreadedClient) throws(TransportError) {
        let backlog = client.backlog
        let (messages, wantsProbe) = state.withLock { state in
            state.backlog = backlog + state.outgoing.count
            defer { (state.outgoing, state.wantsProbe) = ([], false) }
            return (state.outgoing, state.wantsProbe)
        }
        if !messages.isEmpty { try client.publish(messages) }
        if wantsProbe { try client.probe() }
    }
}

extension OutgoingMessage {
    /// At most: with its header, the length of the topic, the identifier and the expiry.
    fileprivate var packetSize: Int { 15 + topic.utf8.count + payload.count }
}
