import Basics

/// An MQTT client that blocks a thread of its own, from the first packet to the loss of its connection.
package protocol ThreadedClient: AnyObject {
    /// Whether the broker has granted all subscriptions.
    var isSubscribed: Bool { get }
    /// The number of messages that the broker has not acknowledged; with QoS 0, that the socket has not taken.
    var backlog: Int { get }
    /// The size of the largest packet that the broker accepts, in bytes; known once the client is subscribed.
    var largestPacket: Int { get }

    /// The events that have arrived and were not taken yet.
    var received: [BellwireTransportEvent] { get set }

    /// Waits for the broker for at most this long, or until the client is woken, and handles all input and timers.
    func wait(milliseconds: Int32) throws(BellwireTransportError)
    /// Sends the messages in this order.
    func publish(_ messages: [BellwireOutgoingMessage]) throws(BellwireTransportError)
    /// Asks the broker for a sign of life; does nothing where that is not needed.
    func probe() throws(BellwireTransportError)
    /// Sends DISCONNECT when the backlog is empty, and waits for both, less than 2 s.
    func disconnect()
}

extension ThreadedClient {
    package func probe() {}
}

/// A connection and the thread that drives the client. Messages wait in the connection until the thread takes them.
package final class ThreadedConnection: BellwireTransportConnection {
    package typealias Wake = @Sendable () -> Void
    package typealias Make = @Sendable () throws(BellwireTransportError) -> any ThreadedClient
    /// Runs a function on a new thread; returns false when no thread can be started.
    package typealias ThreadStarter = @Sendable (_ body: @escaping @Sendable () -> Void) -> Bool
    typealias Opened = @Sendable (BellwireTransportError?) -> Void

    private struct State {
        var outgoing: [BellwireOutgoingMessage] = []
        var backlog = 0
        var largestPacket = 0
        var wantsProbe = false
        var isClosing = false
        var isOver = false
        /// Called once: with nil when the connection is open, or with the error of the failed attempt.
        var opened: Opened?
        var closeWaiters: [@Sendable () -> Void] = []
    }

    private let make: Make
    private let wake: Wake
    private let events: @Sendable (BellwireTransportEvent) -> Void
    private let state = Mutex(State())

    /// The bound on messages that may wait for the broker; the thread hands new messages to the client at once.
    package static let mostBacklog = 4_096
    /// The longest wait of the client, in milliseconds, since the client's own timers need a turn.
    private static let longestWait: Int32 = 1_000
    private static let givenUp = BellwireTransportError(.lost(isClean: false), "given up")

    private init(
        _ make: @escaping Make, _ wake: @escaping Wake, _ events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) {
        (self.make, self.wake, self.events) = (make, wake, events)
    }

    /// Connects, for a transport's `connect`. `make` is called on the thread, and may block; `wake` ends a client's
    /// `wait`, from any thread.
    package static func connect(
        thread: ThreadStarter, wake: @escaping Wake, events: @escaping @Sendable (BellwireTransportEvent) -> Void,
        make: @escaping Make
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
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
            answer(BellwireTransportError(.unreachable, "no thread for the connection"))
        }
    }

    /// Gives up the attempt. The thread may be looking up a name, and notices later.
    private func abandon() {
        state.withLock { $0.isClosing = true }
        wake()
        answer(Self.givenUp)
    }

    /// Reports the result of the attempt; returns false when the result has been reported before.
    @discardableResult
    private func answer(_ error: BellwireTransportError?) -> Bool {
        let opened = state.withLock { state in
            defer { state.opened = nil }
            return state.opened
        }
        opened?(error)
        return opened != nil
    }

    package func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
        let problem = state.withLock { state -> String? in
            guard !state.isOver, !state.isClosing else { return nil }
            guard message.packetSize <= state.largestPacket else {
                return "the message is larger than the broker accepts"
            }
            guard state.backlog + state.outgoing.count < Self.mostBacklog else {
                return "\(Self.mostBacklog) messages wait for the broker"
            }
            state.outgoing.append(message)
            return nil
        }
        if let problem { throw BellwireTransportError(.invalid, problem) }
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
        var end = BellwireTransportError(.lost(isClean: false), "disconnected")
        do throws(BellwireTransportError) { try serve(&isOpen) } catch { end = error }
        let waiters = state.withLock { state in
            (state.isOver, state.outgoing) = (true, [])
            defer { state.closeWaiters = [] }
            return state.closeWaiters
        }
        if isOpen { events(.closed(end)) } else { answer(end) }
        for waiter in waiters { waiter() }
    }

    private func serve(_ isOpen: inout Bool) throws(BellwireTransportError) {
        let client = try make()
        while !state.withLock(\.isClosing) {
            // Events that arrived before the end of the connection count.
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

    private func send(_ client: any ThreadedClient) throws(BellwireTransportError) {
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

extension BellwireOutgoingMessage {
    /// An upper bound of the packet's size in bytes, with the header, the length of the topic, the packet id and the
    /// expiry.
    package var packetSize: Int { 15 + topic.utf8.count + payload.count }
}
