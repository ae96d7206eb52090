import Basics
import Glibc
import Support
import TLSClient

@_exported import MQTTProtocol

/// A connection to a broker of MQTT 5, driven by a single thread: an `MQTTSession` over a socket.
///
/// A connection is made once. The messages in the queue of a lost connection are lost too, so that no stale message is
/// sent later with a fresh expiry. The owner makes a new connection.
///
/// Messages that are published together are sent with the acknowledgments of received messages in a single write, and
/// all bytes that have arrived are read together (docs/decisions/0013).
///
/// Every method except `wake()` must be called by the thread that called `connect()`.
package final class MQTTConnection {
    package typealias Configuration = MQTTSession.Configuration

    private let session: MQTTSession
    private let configuration: Configuration
    /// A pair of sockets: `wake()` writes to one end, `poll` reads the other.
    private let wakeDescriptors: (read: Int32, write: Int32)
    private var stream: BrokerStream?
    private var isCollecting = false

    package var state: MQTTSession.State { session.state }
    /// The packet identifiers of the subscribe and unsubscribe requests that the broker has answered since the last
    /// `poll`.
    package var acknowledged: Set<Int32> { session.acknowledged }
    /// The number of published messages that are not sent yet, or, at QoS 1, not acknowledged by the broker.
    package var backlog: Int { session.backlog }
    package var unauthorizedInARow: Int { session.unauthorizedInARow }
    package var maximumPacketSize: Int { session.maximumPacketSize }
    /// The properties of the broker's answer to CONNECT.
    package var offer: PacketProperties { session.offer }
    /// Whether a ping is under way.
    package var isAsking: Bool { session.isAsking }

    package init(_ configuration: Configuration) throws(MQTTError) {
        self.configuration = configuration
        session = MQTTSession(configuration)
        var descriptors: [Int32] = [-1, -1]
        let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
        guard socketpair(AF_UNIX, Int32(kind), 0, &descriptors) == 0 else {
            throw MQTTError(kind: .invalid, message: "no sockets: \(String(cString: strerror(errno)))")
        }
        wakeDescriptors = (descriptors[0], descriptors[1])
    }

    deinit {
        close(wakeDescriptors.read)
        close(wakeDescriptors.write)
    }

    private static var now: Int64 { SystemClock.boot.milliseconds }

    /// Opens the connection; CONNACK comes with a later `poll`. Blocks during the name lookup and the TCP connect, for
    /// each at most `milliseconds`.
    package func connect(within milliseconds: Int32 = 1_000) throws(MQTTError) {
        try session.check()
        stream = try BrokerStream(configuration, within: milliseconds)
        session.begin(Self.now)
        try flush()
    }

    /// Runs `body`, which publishes several messages, and then sends them together.
    package func together(_ body: () throws(MQTTError) -> Void) throws(MQTTError) {
        isCollecting = true
        defer { isCollecting = false }
        try body()
        try flush()
    }

    /// Sends the collected packets, and waits up to `milliseconds` for messages, `wake()` or the descriptors in
    /// `others`. Returns the received messages. Without `reads`, messages stay in the socket; use this for a short time
    /// only.
    package func poll(
        milliseconds: Int32, reads: Bool = true, others: UnsafeMutablePointer<pollfd>? = nil, count: Int = 1
    ) throws(MQTTError) -> [MQTTMessage] {
        try guarding { () throws(MQTTError) in
            try flush()
            guard let stream else { throw session.lost() }
            let arrived = wait(milliseconds, for: stream, reads: reads, others, others == nil ? 0 : count)
            return try receive(isReadable: arrived, reads: reads)
        }
    }

    /// Runs an operation on the connection. An error ends the connection, and an error before CONNACK gets its likely
    /// cause.
    private func guarding<Result>(_ operation: () throws(MQTTError) -> Result) throws(MQTTError) -> Result {
        let wasConnecting = state == .connecting
        let result: Result
        do throws(MQTTError) {
            result = try operation()
        } catch {
            session.close(error.message)
            throw wasConnecting ? error.beforeConnectAnswer(configuration.broker) : error
        }
        if case .closed = state { throw session.lost() }
        return result
    }

    private func receive(isReadable: Bool, reads: Bool) throws(MQTTError) -> [MQTTMessage] {
        session.forgetAcknowledged()
        guard let stream else { throw session.lost() }
        // The end of the connection is noticed also without `reads`: otherwise `poll` would return at once again and
        // again.
        if reads || isReadable { try receive(stream, isReadable: isReadable) }
        try session.keepAlive(Self.now)
        // Acknowledgments are sent with the next published messages, or by the next `poll` or `prepareToWait`.
        // Messages that had waited for the broker, and pings, are sent at once.
        if session.isUrgent { try flush() }
        return session.takeMessages()
    }

    /// Sends the collected packets. Returns the descriptor and events to wait for, for an owner that waits for several
    /// connections at a time and then calls `receive`.
    package func prepareToWait(reads: Bool) throws(MQTTError) -> pollfd {
        try guarding { () throws(MQTTError) in
            try flush()
            guard let stream else { throw session.lost() }
            let events = (reads ? POLLIN : 0) | (stream.waitsForSocket(session.output) ? POLLOUT : 0)
            return pollfd(fd: stream.descriptor, events: Int16(events), revents: 0)
        }
    }

    /// Returns the messages that have arrived, as `poll` does, without waiting. `events` are the events that
    /// the system's `poll` has reported (`revents`) for the descriptor of `prepareToWait`.
    package func receive(_ events: Int16, reads: Bool) throws(MQTTError) -> [MQTTMessage] {
        try guarding { () throws(MQTTError) in
            try receive(isReadable: events & ~Int16(POLLOUT) != 0, reads: reads)
        }
    }

    /// Whether `receive` has messages to return although the descriptor is quiet.
    package func hasWork(reads: Bool) -> Bool { session.mayHoldMore && reads }

    /// Waits. Returns whether the stream can be read.
    private func wait(
        _ milliseconds: Int32, for stream: BrokerStream, reads: Bool, _ others: UnsafeMutablePointer<pollfd>?,
        _ count: Int
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: pollfd.self, capacity: 2 + count) { descriptors in
            descriptors[0] = pollfd(fd: stream.descriptor, events: reads ? Int16(POLLIN) : 0, revents: 0)
            if stream.waitsForSocket(session.output) { descriptors[0].events |= Int16(POLLOUT) }
            descriptors[1] = pollfd(fd: wakeDescriptors.read, events: Int16(POLLIN), revents: 0)
            for place in 0..<count { descriptors[2 + place] = others![place] }
            // A complete packet may have been left after the last batch.
            _ = Glibc.poll(
                descriptors.baseAddress, nfds_t(2 + count), hasWork(reads: reads) ? 0 : max(0, milliseconds))
            if descriptors[1].revents != 0 {
                var bytes = (UInt64(0), UInt64(0))
                while read(wakeDescriptors.read, &bytes, 16) == 16 {}
            }
            for place in 0..<count { others![place] = descriptors[2 + place] }
            return descriptors[0].revents & ~Int16(POLLOUT) != 0
        }
    }

    private func receive(_ stream: BrokerStream, isReadable: Bool) throws(MQTTError) {
        try session.take()
        guard isReadable else { return }
        var reading = BrokerStream.Reading.more
        while reading == .more, !session.isBatchFull {
            let before = session.input.count
            do throws(MQTTError) {
                reading = try stream.receive(&session.input)
            } catch {
                // Packets that came before the end are still decoded, above all a DISCONNECT with the reason.
                try session.take()
                throw error
            }
            if session.input.count > before { session.hasReceived(Self.now) }
            try session.take()
        }
        guard reading == .end else { return }
        throw session.ended()
    }

    /// Pings the broker now, unless a ping is under way. An owner that doubts the connection calls this function:
    /// without an answer in time the connection is lost.
    package func ask() throws(MQTTError) { if session.ask(Self.now) { try flushUnlessCollecting() } }

    private var hasUnsent: Bool { !session.output.isEmpty || !(stream?.isFlushed ?? true) }

    private func flush() throws(MQTTError) {
        guard let stream else { throw session.lost() }
        if case .closed = state { throw session.lost() }
        session.isFlushing()
        do throws(MQTTError) {
            if try stream.send(&session.output) { session.hasSent(Self.now) }
        } catch {
            // The broker may have closed the connection, and its reason may wait in the socket.
            try? receive(stream, isReadable: true)
            if case .closed = state { throw session.lost() }
            session.close(error.message)
            throw error
        }
        if !hasUnsent { session.hasFlushed(Self.now) }
    }

    /// Ends a `poll` that is waiting. May be called by any thread.
    package func wake() {
        var one: UInt8 = 1
        _ = write(wakeDescriptors.write, &one, 1)
    }

    /// Subscribes, as `MQTTSession.subscribe`.
    package func subscribe(
        _ filter: String, qos: QoS, wantsRetained: Bool = false, isOptional: Bool = false
    ) throws(MQTTError) -> Int32 {
        let identifier = try session.subscribe(
            filter, qos: qos, wantsRetained: wantsRetained, isOptional: isOptional)
        try flushUnlessCollecting()
        return identifier
    }

    package func unsubscribe(_ filter: String) throws(MQTTError) -> Int32 {
        let identifier = try session.unsubscribe(filter)
        try flushUnlessCollecting()
        return identifier
    }

    /// Sends a message, or within `together` collects the message. Returns its identifier; with `isAwaited`,
    /// `takeAnswered` returns this identifier later.
    @discardableResult
    package func publish(_ message: MQTTMessage, isAwaited: Bool = false) throws(MQTTError) -> Int32 {
        let identifier = try session.publish(message, isAwaited: isAwaited)
        try flushUnlessCollecting()
        return identifier
    }

    private func flushUnlessCollecting() throws(MQTTError) {
        if !isCollecting { try flush() }
    }

    /// Takes out the awaited messages that the broker has taken or refused since the last call; at QoS 0, the messages
    /// that were published.
    package func takeAnswered() -> [(identifier: Int32, isTaken: Bool)] { session.takeAnswered() }

    /// Takes out the number of messages that the broker has refused since the last call, by the reason's name.
    package func takeRefused() -> [String: Int] { session.takeRefused() }

    /// Ends the connection without DISCONNECT, so that the broker publishes the will.
    package func breakOff() {
        stream = nil
        session.close("broken off")
    }

    /// Disconnects, so that the broker drops the will. Waits up to `milliseconds` until the broker has all published
    /// messages: when the socket is closed, a broker may drop messages that the broker has not read yet. Messages that
    /// arrive in this time are dropped.
    package func disconnect(flushingFor milliseconds: Int32 = 1000) {
        let end = Self.now + Int64(milliseconds)
        while backlog > 0 || hasUnsent, Self.now < end {
            guard (try? poll(milliseconds: Self.flushStep)) != nil else { break }
        }
        if case .closed = state { return }
        session.appendDisconnect()
        if (try? flush()) != nil, let stream {
            stream.finish()
            // The broker closes the connection when the broker has read all bytes. If this side closed earlier, the
            // broker might drop some bytes.
            var input = ByteQueue()
            var waiting = pollfd(fd: stream.descriptor, events: Int16(POLLIN), revents: 0)
            while Self.now < end, Glibc.poll(&waiting, 1, Self.flushStep) >= 0 {
                guard let reading = try? stream.receive(&input), reading != .end else { break }
                input.take(input.count)
            }
        }
        stream = nil
        session.close("disconnected")
    }

    private static let flushStep: Int32 = 10
}

extension MQTTSession.Configuration {
    /// Reads the password from `file`, which holds a token. The file is read for each connection, since the token may
    /// be replaced.
    package mutating func readToken(from file: String) throws(MQTTError) {
        guard let token = readSecret(file) else {
            throw MQTTError(kind: .refused, message: "no token can be read from \(file)")
        }
        broker.password = token
    }
}
