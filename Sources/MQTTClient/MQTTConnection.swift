import Glibc
import Support
import TLSClient

/// A connection to a broker of MQTT 5, driven by a single thread.
///
/// A connection is made once. The messages in the queue of a lost connection are lost too, so that no stale message is
/// sent later with a fresh expiry. The owner makes a new connection.
///
/// Messages that are published together are sent with the acknowledgments of received messages in a single write, and
/// all bytes that have arrived are read together (docs/decisions/0013).
///
/// Every method except `wake()` must be called by the thread that called `connect()`.
package final class MQTTConnection {
    package struct Configuration: Sendable {
        package var broker: BrokerAddress
        package var clientID: String
        /// How long the client sends no bytes before a ping to the broker, and the longest wait for the answer, in
        /// seconds, 1 to 65,535. The broker may set another time, or turn the pings off.
        package var keepAlive: UInt16 = 5
        /// The longest wait for the answer to a ping, in milliseconds, however long the keepalive is.
        package var longestAnswer: Int64 = 10_000
        /// The message that the broker publishes when this connection is lost.
        package var will: MQTTMessage?
        /// A file with the certificate authorities to trust with `mqtts://`; nil for the system's authorities.
        package var certificateAuthorityFile: String?
        /// With `mqtts://`: the files with this client's certificate and key.
        package var certificateFile: String?
        package var certificateKeyFile: String?
        /// The user property to read in received messages; nil for none.
        package var userProperty: String?
        /// The bound on unacknowledged QoS 1 messages in each direction.
        package var inflightLimit: UInt16 = 1000
        /// The bound on packets from the broker, in bytes.
        package var maxPacketBytes = 16 * 1024 * 1024

        package init(broker: BrokerAddress, clientID: String) {
            self.broker = broker
            self.clientID = clientID
        }

        /// Reads the password from `file`, which holds a token. The file is read for each connection, since the token
        /// may be replaced.
        package mutating func readToken(from file: String) throws(MQTTError) {
            guard let token = readSecret(file) else {
                throw MQTTError(kind: .refused, message: "no token can be read from \(file)")
            }
            broker.password = token
        }
    }

    /// The state of the connection. A state only moves downward in this list.
    package enum State: Equatable, Sendable {
        /// CONNECT was sent. Can transition to `connected` and `closed`.
        case connecting
        /// CONNACK arrived. Can transition to `closed`.
        case connected
        /// Final.
        case closed(reason: String)
    }

    /// The bound on messages per `poll`: the rest of a flood waits in the socket, not in memory, and the owner can
    /// serve its timers.
    private static let readBatch = 256
    /// The bound on messages without the broker's acknowledgment; there are 65,535 identifiers.
    private static let longestQueue = 60_000

    /// The smallest packet size that a broker must accept so that this client can acknowledge messages, in bytes.
    private static let smallestPacketSize = 4

    package private(set) var state = State.connecting
    /// The packet identifiers of the subscribe and unsubscribe requests that the broker has answered since the last
    /// `poll`.
    package private(set) var acknowledged: Set<Int32> = []
    /// The number of published messages that are not sent yet, or, at QoS 1, not acknowledged by the broker.
    package var backlog: Int { unsent + unanswered.count }

    private let configuration: Configuration
    /// A pair of sockets: `wake()` writes to one end, `poll` reads the other.
    private let wakeDescriptors: (read: Int32, write: Int32)
    private var stream: BrokerStream?
    /// The received bytes that are not decoded yet.
    private var input = ByteQueue()
    /// Whether the last batch was full, so that `input` may hold more packets.
    private var mayHoldMore = false
    private var output = ByteQueue()
    /// Whether `output` holds messages that had waited for the broker.
    private var hasReleased = false
    private var isCollecting = false
    private var inbox: [MQTTMessage] = []
    /// The number of QoS 0 messages in `output`.
    private var unsent = 0
    /// The QoS 1 messages that the broker has not acknowledged, including the waiting messages.
    private var unanswered: Set<UInt16> = []
    /// The messages that wait until the broker takes more, from `firstWaiting` on.
    private var waiting: [[UInt8]] = []
    private var firstWaiting = 0
    /// The number of QoS 1 messages that the broker takes now.
    private var room: Int
    /// The subscribe and unsubscribe requests that the broker has not answered.
    private var subscribing: Set<UInt16> = []
    /// The subscribe requests that the broker may refuse.
    private var optional: Set<UInt16> = []
    private var lastIdentifier: UInt16 = 0
    private var awaited: Set<UInt16> = []
    private var answered: [(identifier: Int32, isTaken: Bool)] = []
    /// The number of messages that the broker has refused, by reason code.
    private var refused: [UInt8: Int] = [:]
    private static let notAuthorized: UInt8 = 0x87
    /// The number of consecutive messages that were refused because this client may not publish on their topics.
    package private(set) var unauthorizedInARow = 0
    /// The broker's limits (MQTT 5, section 3.2.2.3).
    private var maximumQoS = QoS.atLeastOnce
    package private(set) var maximumPacketSize = Int.max
    /// The properties of the broker's answer to CONNECT.
    package private(set) var offer = PacketProperties()
    /// The keepalive in milliseconds; 0 when the keepalive is off.
    private var keepAlive: Int64
    private var lastSent: Int64 = 0
    private var lastReceived: Int64 = 0
    /// When the last ping without an answer was sent. While the ping is still in `output`, `isAboutToAsk` is true.
    private var asked: Int64?
    private var isAboutToAsk = false
    private var isRefused = false
    private var disconnectReason: UInt8?
    private var isEndOfStream = false
    private var isAboutCredentials = false

    package init(_ configuration: Configuration) throws(MQTTError) {
        self.configuration = configuration
        room = Int(max(1, configuration.inflightLimit))
        keepAlive = Int64(max(1, configuration.keepAlive)) * 1000
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

    /// Opens the connection; CONNACK comes with a later `poll`. Blocks during the name lookup and the TCP connect, for
    /// each at most `milliseconds`.
    package func connect(within milliseconds: Int32 = 1_000) throws(MQTTError) {
        let longest =
            [configuration.clientID, configuration.broker.username, configuration.broker.password].compactMap {
                $0?.utf8.count
            }.max() ?? 0
        guard longest <= 65_535, configuration.will.map({ $0.problem == nil && $0.payload.count <= 65_535 }) ?? true
        else { throw MQTTError(kind: .invalid, message: "the client id, username, password or will is too long") }
        stream = try BrokerStream(configuration, within: milliseconds)
        lastSent = SystemClock.boot.milliseconds
        lastReceived = lastSent
        output.append { $0.appendConnect(configuration) }
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
            guard let stream else { throw lost() }
            let arrived = wait(milliseconds, for: stream, reads: reads, others, others == nil ? 0 : count)
            return try receive(isReadable: arrived, reads: reads)
        }
    }

    /// Runs an operation of a turn. An error ends the connection.
    private func guarding<Result>(_ operation: () throws(MQTTError) -> Result) throws(MQTTError) -> Result {
        let wasConnecting = state == .connecting
        let result: Result
        do throws(MQTTError) {
            result = try operation()
        } catch {
            if case .closed = state {} else { state = .closed(reason: error.message) }
            guard wasConnecting, error.kind == .lost else { throw error }
            // A port with another protocol causes this error.
            let kind = configuration.broker.isTLS ? "with TLS" : "without TLS"
            throw error.because("before CONNECT was answered: is it a port for MQTT \(kind)?")
        }
        if case .closed = state { throw lost() }
        return result
    }

    private func receive(isReadable: Bool, reads: Bool) throws(MQTTError) -> [MQTTMessage] {
        acknowledged.removeAll(keepingCapacity: true)
        guard let stream else { throw lost() }
        // The end of the connection is noticed also without `reads`: otherwise `poll` would return at once again and
        // again.
        if reads || isReadable { try receive(stream, isReadable: isReadable) }
        try keepAlive(SystemClock.boot.milliseconds)
        // Acknowledgments wait for the next published messages; messages that the broker has made room for are sent at
        // once.
        if hasReleased || isAboutToAsk { try flush() }
        defer { inbox.removeAll(keepingCapacity: true) }
        return inbox
    }

    /// Sends the collected packets. Returns the descriptor and events to wait for, for an owner that waits for several
    /// connections at a time and then calls `receive`.
    package func prepareToWait(reads: Bool) throws(MQTTError) -> pollfd {
        try guarding { () throws(MQTTError) in
            try flush()
            guard let stream else { throw lost() }
            let events = (reads ? POLLIN : 0) | (stream.waitsForSocket(output) ? POLLOUT : 0)
            return pollfd(fd: stream.descriptor, events: Int16(events), revents: 0)
        }
    }

    /// Returns the messages that have arrived, as `poll` does, without waiting. `events` are the events of the
    /// descriptor that `prepareToWait` returned.
    package func receive(_ events: Int16, reads: Bool) throws(MQTTError) -> [MQTTMessage] {
        try guarding { () throws(MQTTError) in
            try receive(isReadable: events & ~Int16(POLLOUT) != 0, reads: reads)
        }
    }

    /// Whether `receive` has messages to return although the descriptor is quiet.
    package func hasWork(reads: Bool) -> Bool { mayHoldMore && reads }

    /// Waits. Returns whether the stream can be read.
    private func wait(
        _ milliseconds: Int32, for stream: BrokerStream, reads: Bool, _ others: UnsafeMutablePointer<pollfd>?,
        _ count: Int
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: pollfd.self, capacity: 2 + count) { descriptors in
            descriptors[0] = pollfd(fd: stream.descriptor, events: reads ? Int16(POLLIN) : 0, revents: 0)
            if stream.waitsForSocket(output) { descriptors[0].events |= Int16(POLLOUT) }
            descriptors[1] = pollfd(fd: wakeDescriptors.read, events: Int16(POLLIN), revents: 0)
            for place in 0..<count { descriptors[2 + place] = others![place] }
            // A complete packet may have been left after the last batch.
            _ = Glibc.poll(
                descriptors.baseAddress, nfds_t(2 + count), mayHoldMore && reads ? 0 : max(0, milliseconds))
            if descriptors[1].revents != 0 {
                var bytes = (UInt64(0), UInt64(0))
                while read(wakeDescriptors.read, &bytes, 16) == 16 {}
            }
            for place in 0..<count { others![place] = descriptors[2 + place] }
            return descriptors[0].revents & ~Int16(POLLOUT) != 0
        }
    }

    private func receive(_ stream: BrokerStream, isReadable: Bool) throws(MQTTError) {
        try take()
        guard isReadable else { return }
        var reading = BrokerStream.Reading.more
        while reading == .more, inbox.count < Self.readBatch {
            let before = input.count
            do throws(MQTTError) {
                reading = try stream.receive(&input)
            } catch {
                // Packets that came before the end are still decoded, above all a DISCONNECT with the reason.
                try take()
                throw error
            }
            if input.count > before {
                lastReceived = SystemClock.boot.milliseconds
                asked = nil
            }
            try take()
        }
        guard reading == .end else { return }
        isEndOfStream = true
        throw lost()
    }

    /// Decodes the packets that have arrived.
    private func take() throws(MQTTError) {
        while inbox.count < Self.readBatch {
            let found: (packet: InboundPacket, size: Int)?
            do throws(MalformedPacket) {
                found = try input.read { bytes throws(MalformedPacket) in
                    try InboundPacket.first(
                        of: bytes, userProperty: configuration.userProperty, maxBytes: configuration.maxPacketBytes)
                }
            } catch {
                throw MQTTError(kind: .lost, message: "the broker sent no MQTT 5: \(error.reason)")
            }
            guard let found else { break }
            input.take(found.size)
            try received(found.packet)
        }
        mayHoldMore = inbox.count >= Self.readBatch
    }

    private func received(_ packet: InboundPacket) throws(MQTTError) {
        switch packet {
        case .connectAnswer(let reason, let properties): try connectAnswered(reason, properties)
        case .disconnect(let reason, let text):
            disconnectReason = reason
            throw closed("the broker disconnects: " + (text ?? reasonName(reason)))
        case _ where state == .connecting: throw closed("the broker sent no MQTT 5: a packet before CONNACK")
        case .message(let message, let identifier):
            if identifier != 0 { output.append { $0.appendPublishAnswer(identifier) } }
            inbox.append(message)
        case .publishAnswer(let identifier, let reason): publishAnswered(identifier, reason)
        case .subscriptionAnswer(let identifier, let isGranted):
            let isOptional = optional.remove(identifier) != nil
            guard isGranted || isOptional else {
                isRefused = true
                throw closed("the broker refuses a subscription")
            }
            subscribing.remove(identifier)
            acknowledged.insert(Int32(identifier))
        case .pong: break
        }
    }

    private func connectAnswered(_ reason: UInt8, _ properties: PacketProperties) throws(MQTTError) {
        guard reason == 0 else {
            isRefused = !MQTTClient.isTemporary(reason)
            isAboutCredentials = MQTTClient.isAboutCredentials(reason)
            throw closed("the broker refused: " + (properties.reason ?? reasonName(reason)))
        }
        guard state == .connecting else { throw closed("the broker sent no MQTT 5: a second answer to CONNECT") }
        state = .connected
        offer = properties
        if let limit = properties.receiveMaximum {
            room += min(0, Int(limit) - Int(max(1, configuration.inflightLimit)))
        }
        if let limit = properties.maximumPacketSize {
            guard limit >= Self.smallestPacketSize else {
                throw MQTTError(kind: .refused, message: "the broker takes no packet of more than \(limit) bytes")
            }
            maximumPacketSize = Int(limit)
        }
        if properties.maximumQoS == 0 { maximumQoS = .atMostOnce }
        if let seconds = properties.serverKeepAlive { keepAlive = Int64(seconds) * 1000 }
    }

    private func publishAnswered(_ identifier: UInt16, _ reason: UInt8) {
        guard unanswered.remove(identifier) != nil else { return }
        if reason >= 0x80 { refused[reason, default: 0] += 1 }
        // Other refusals, for example because of a quota, do not concern the right to publish.
        if reason == Self.notAuthorized { unauthorizedInARow += 1 } else if reason < 0x80 { unauthorizedInARow = 0 }
        if awaited.remove(identifier) != nil { answered.append((Int32(identifier), isTaken: reason < 0x80)) }
        room += 1
        guard room > 0, firstWaiting < waiting.count else { return }
        room -= 1
        output.append { $0 += waiting[firstWaiting] }
        waiting[firstWaiting] = []
        firstWaiting += 1
        hasReleased = true
        if firstWaiting == waiting.count || firstWaiting > Self.forgottenFrom && firstWaiting > waiting.count / 2 {
            waiting.removeFirst(firstWaiting)
            firstWaiting = 0
        }
    }

    /// Pings the broker after a time in which no bytes were received, or no bytes were sent.
    private func keepAlive(_ now: Int64) throws(MQTTError) {
        if let asked {
            guard now - asked <= longestAnswer else { throw closed("the broker no longer answers") }
        } else if isAboutToAsk {
            guard now - lastSent <= longestAnswer else { throw closed("the broker no longer reads") }
        } else if keepAlive > 0, now - min(lastSent, lastReceived) >= keepAlive {
            appendQuestion()
        }
    }

    private var longestAnswer: Int64 {
        keepAlive > 0 ? min(keepAlive, configuration.longestAnswer) : configuration.longestAnswer
    }

    private func appendQuestion() {
        output.append { $0.appendPing() }
        isAboutToAsk = true
    }

    /// Pings the broker now, unless a ping is under way. An owner that doubts the connection calls this function:
    /// without an answer in time the connection is lost.
    package func ask() throws(MQTTError) {
        guard state == .connected, asked == nil, !isAboutToAsk else { return }
        lastSent = SystemClock.boot.milliseconds
        appendQuestion()
        try flushUnlessCollecting()
    }

    private static let forgottenFrom = 1_024

    private var hasUnsent: Bool { !output.isEmpty || !(stream?.isFlushed ?? true) }

    private func flush() throws(MQTTError) {
        guard let stream else { throw lost() }
        if case .closed = state { throw lost() }
        hasReleased = false
        do throws(MQTTError) {
            if try stream.send(&output) { lastSent = SystemClock.boot.milliseconds }
        } catch {
            // The broker may have closed the connection, and its reason may wait in the socket.
            try? receive(stream, isReadable: true)
            if case .closed = state { throw lost() }
            state = .closed(reason: error.message)
            throw error
        }
        guard !hasUnsent else { return }
        unsent = 0
        if isAboutToAsk {
            isAboutToAsk = false
            asked = SystemClock.boot.milliseconds
        }
    }

    /// Ends a `poll` that is waiting. May be called by any thread.
    package func wake() {
        var one: UInt8 = 1
        _ = write(wakeDescriptors.write, &one, 1)
    }

    /// Subscribes. Returns the packet identifier; `acknowledged` contains this identifier once the broker has answered.
    /// - Parameters:
    ///   - wantsRetained: whether the broker sends the messages that it has retained.
    ///   - isOptional: whether the connection goes on when the broker refuses the subscription.
    package func subscribe(
        _ filter: String, qos: QoS, wantsRetained: Bool = false, isOptional: Bool = false
    ) throws(MQTTError) -> Int32 {
        let identifier = try request(filter) {
            $0.appendSubscribe(filter, qos: qos, wantsRetained: wantsRetained, identifier: $1)
        }
        if isOptional { optional.insert(UInt16(identifier)) }
        return identifier
    }

    package func unsubscribe(_ filter: String) throws(MQTTError) -> Int32 {
        try request(filter) { $0.appendUnsubscribe(filter, identifier: $1) }
    }

    /// Sends a request for a filter. Returns its packet identifier.
    private func request(_ filter: String, _ write: (inout [UInt8], UInt16) -> Void) throws(MQTTError) -> Int32 {
        guard (1...65_535).contains(filter.utf8.count) else {
            throw MQTTError(kind: .invalid, message: "the topic filter has \(filter.utf8.count) bytes")
        }
        let identifier = try nextIdentifier()
        var packet: [UInt8] = []
        write(&packet, identifier)
        guard packet.count <= maximumPacketSize else { throw tooLarge }
        subscribing.insert(identifier)
        output.append { $0 += packet }
        try flushUnlessCollecting()
        return Int32(identifier)
    }

    private var tooLarge: MQTTError {
        MQTTError(kind: .invalid, message: "the packet is larger than the broker accepts")
    }

    private func nextIdentifier() throws(MQTTError) -> UInt16 {
        if case .closed = state { throw lost() }
        guard unanswered.count < Self.longestQueue else {
            throw MQTTError(kind: .invalid, message: "\(unanswered.count) messages wait for the broker")
        }
        repeat {
            lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1
        } while unanswered.contains(lastIdentifier) || subscribing.contains(lastIdentifier)
        return lastIdentifier
    }

    /// Sends a message, or within `together` collects the message. Returns its identifier; with `isAwaited`,
    /// `takeAnswered` returns this identifier later.
    @discardableResult
    package func publish(_ message: MQTTMessage, isAwaited: Bool = false) throws(MQTTError) -> Int32 {
        if let problem = message.problem { throw MQTTError(kind: .invalid, message: problem) }
        let identifier = try nextIdentifier()
        let qos = maximumQoS == .atMostOnce ? .atMostOnce : message.qos
        let mustWait = qos == .atLeastOnce && room <= 0
        var packet: [UInt8] = []
        var fits = false
        func write(_ bytes: inout [UInt8]) {
            fits = bytes.appendPublish(message, qos: qos, identifier: identifier, maxBytes: maximumPacketSize)
        }
        if mustWait { write(&packet) } else { output.append(write) }
        guard fits else { throw tooLarge }
        if qos == .atMostOnce {
            unsent += 1
            if isAwaited { answered.append((Int32(identifier), isTaken: true)) }
        } else {
            unanswered.insert(identifier)
            if isAwaited { awaited.insert(identifier) }
            if mustWait { waiting.append(packet) } else { room -= 1 }
        }
        try flushUnlessCollecting()
        return Int32(identifier)
    }

    private func flushUnlessCollecting() throws(MQTTError) {
        if !isCollecting { try flush() }
    }

    /// Takes out the awaited messages that the broker has taken or refused since the last call; at QoS 0, the messages
    /// that were sent or collected.
    package func takeAnswered() -> [(identifier: Int32, isTaken: Bool)] {
        defer { answered.removeAll(keepingCapacity: true) }
        return answered
    }

    /// Takes out the number of messages that the broker has refused since the last call, by the reason's name.
    package func takeRefused() -> [String: Int] {
        guard !refused.isEmpty else { return [:] }
        defer { refused.removeAll() }
        return Dictionary(uniqueKeysWithValues: refused.map { (reasonName($0), $1) })
    }

    /// Whether a ping is under way.
    package var isAsking: Bool { asked != nil || isAboutToAsk }

    /// Ends the connection without DISCONNECT, so that the broker publishes the will.
    package func breakOff() {
        stream = nil
        if state == .connected || state == .connecting { state = .closed(reason: "broken off") }
    }

    /// Disconnects, so that the broker drops the will. Waits up to `milliseconds` until the broker has all published
    /// messages: a broker that cannot acknowledge unread messages to a closed socket may drop these messages. Messages
    /// that arrive in this time are dropped.
    package func disconnect(flushingFor milliseconds: Int32 = 1000) {
        let end = SystemClock.boot.milliseconds + Int64(milliseconds)
        while backlog > 0 || hasUnsent, SystemClock.boot.milliseconds < end {
            guard (try? poll(milliseconds: Self.flushStep)) != nil else { break }
        }
        if case .closed = state { return }
        output.append { $0.appendDisconnect() }
        if (try? flush()) != nil, let stream {
            stream.finish()
            // The broker closes the connection when the broker has read all bytes. If this side closed earlier, the
            // broker might drop some bytes.
            var input = ByteQueue()
            var waiting = pollfd(fd: stream.descriptor, events: Int16(POLLIN), revents: 0)
            while SystemClock.boot.milliseconds < end, Glibc.poll(&waiting, 1, Self.flushStep) >= 0 {
                guard let reading = try? stream.receive(&input), reading != .end else { break }
                input.take(input.count)
            }
        }
        stream = nil
        state = .closed(reason: "disconnected")
    }

    private static let flushStep: Int32 = 10

    private func closed(_ reason: String) -> MQTTError {
        state = .closed(reason: reason)
        return lost()
    }

    private func lost() -> MQTTError {
        var error = MQTTError(kind: .lost, message: "the connection was lost")
        if case .closed(let reason) = state {
            error = MQTTError(
                kind: isRefused ? .refused : .lost, message: reason, isAboutCredentials: isAboutCredentials)
        }
        (error.disconnectReason, error.isEndOfStream) = (disconnectReason, isEndOfStream)
        return error
    }
}
