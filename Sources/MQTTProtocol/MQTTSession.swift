import Basics

/// The client's side of a connection to a broker of MQTT 5, as bytes in and bytes out: the session knows no socket and
/// no clock. Times are milliseconds of a clock that never jumps; the owner passes them in.
///
/// The owner appends received bytes to `input` and calls `take`, sends the bytes of `output`, and calls `keepAlive`
/// about every second. A session is used once, by a single thread at a time.
package final class MQTTSession {
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
        /// The names of the user properties to read in received messages.
        package var userProperties: [String] = []
        /// The bound on unacknowledged QoS 1 messages in each direction.
        package var inflightLimit: UInt16 = 1000
        /// The bound on packets from the broker, in bytes.
        package var maxPacketBytes = 16 * 1024 * 1024

        package init(broker: BrokerAddress, clientID: String) {
            self.broker = broker
            self.clientID = clientID
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

    /// The bound on messages per `take`: the rest of a flood waits, and the owner can serve its timers.
    private static let readBatch = 256
    /// The bound on messages without the broker's acknowledgment; there are 65,535 identifiers.
    private static let longestQueue = 60_000
    /// The smallest packet size that a broker must accept so that this client can acknowledge messages, in bytes.
    private static let smallestPacketSize = 4
    private static let forgottenFrom = 1_024
    private static let notAuthorized: UInt8 = 0x87

    package private(set) var state = State.connecting
    /// The packet identifiers of the subscribe and unsubscribe requests that the broker has answered since the last
    /// `forgetAcknowledged`.
    package private(set) var acknowledged: Set<Int32> = []
    /// The number of published messages that are not sent yet, or, at QoS 1, not acknowledged by the broker.
    package var backlog: Int { unsent + unanswered.count }

    private let configuration: Configuration
    /// The received bytes that are not decoded yet.
    package var input = ByteQueue()
    /// The bytes to send.
    package var output = ByteQueue()
    /// Whether the last batch was full, so that `input` may hold more packets.
    package private(set) var mayHoldMore = false
    /// Whether `output` holds messages that had waited for the broker, or a ping: these are sent at once.
    package var isUrgent: Bool { hasReleased || isAboutToAsk }
    private var hasReleased = false
    private var inbox: [MQTTMessage] = []
    /// The number of QoS 0 messages in `output`, and the bytes of `output` when the number was determined.
    private var unsent = 0
    private var unsentBytes = 0
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
    /// The time at which the last ping without an answer was sent. While the ping is still in `output`, `isAboutToAsk`
    /// is true.
    private var asked: Int64?
    private var isAboutToAsk = false
    private var isRefused = false
    private var disconnectReason: UInt8?
    private var isEndOfStream = false
    private var isAboutCredentials = false

    package init(_ configuration: Configuration) {
        self.configuration = configuration
        room = Int(max(1, configuration.inflightLimit))
        keepAlive = Int64(max(1, configuration.keepAlive)) * 1000
    }

    /// Throws when CONNECT cannot hold the configuration.
    package func check() throws(MQTTError) {
        let texts = [configuration.clientID, configuration.broker.username, configuration.broker.password]
        let longest = texts.compactMap { $0?.utf8.count }.max() ?? 0
        guard longest <= 65_535, configuration.will.map({ $0.problem == nil && $0.payload.count <= 65_535 }) ?? true
        else { throw MQTTError(kind: .invalid, message: "the client id, username, password or will is too long") }
    }

    /// Appends CONNECT to `output`. The owner calls this method when bytes can be sent.
    package func begin(_ now: Int64) {
        (lastSent, lastReceived) = (now, now)
        output.append { $0.appendConnect(configuration) }
    }

    // MARK: Receiving

    /// Notes that bytes of the broker were appended to `input`.
    package func hasReceived(_ now: Int64) {
        lastReceived = now
        asked = nil
    }

    /// Whether `take` decodes no further packets before `takeMessages`.
    package var isBatchFull: Bool { inbox.count >= Self.readBatch }

    /// Decodes the packets that have arrived, until a batch of messages is full.
    package func take() throws(MQTTError) {
        while !isBatchFull {
            let found: (packet: InboundPacket, size: Int)?
            do throws(MalformedPacket) {
                found = try input.read { bytes throws(MalformedPacket) in
                    try InboundPacket.first(
                        of: bytes, userProperties: configuration.userProperties, maxBytes: configuration.maxPacketBytes)
                }
            } catch {
                throw MQTTError(kind: .lost, message: "the broker sent no MQTT 5: \(error.reason)")
            }
            guard let found else { break }
            input.take(found.size)
            try received(found.packet)
        }
        mayHoldMore = isBatchFull
    }

    /// Takes out the messages that `take` has decoded.
    package func takeMessages() -> [MQTTMessage] {
        defer { inbox.removeAll(keepingCapacity: true) }
        return inbox
    }

    package func forgetAcknowledged() { acknowledged.removeAll(keepingCapacity: true) }

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
            isRefused = !MQTTProtocol.isTemporary(reason)
            isAboutCredentials = MQTTProtocol.isAboutCredentials(reason)
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

    // MARK: Sending

    /// Notes that bytes of `output` were sent.
    package func hasSent(_ now: Int64) {
        lastSent = now
        // A busy broker takes bytes all the time, and `output` may never be empty.
        if unsentBytes > output.count {
            unsent = unsent * output.count / unsentBytes
            unsentBytes = output.count
        }
    }

    /// Notes that the owner begins to send all of `output`.
    package func isFlushing() { hasReleased = false }

    /// Notes that all of `output` was sent.
    package func hasFlushed(_ now: Int64) {
        unsent = 0
        guard isAboutToAsk else { return }
        isAboutToAsk = false
        asked = now
    }

    /// Pings the broker after a time in which no bytes were received, or no bytes were sent. Throws when the broker has
    /// not answered in time.
    package func keepAlive(_ now: Int64) throws(MQTTError) {
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

    /// Whether a ping is under way.
    package var isAsking: Bool { asked != nil || isAboutToAsk }

    /// Pings the broker now, unless a ping is under way: without an answer in time `keepAlive` throws. Returns whether
    /// a ping was appended.
    package func ask(_ now: Int64) -> Bool {
        guard state == .connected, !isAsking else { return false }
        lastSent = now
        appendQuestion()
        return true
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

    /// Appends a request for a filter. Returns its packet identifier.
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

    /// Publishes a message. Returns its identifier; with `isAwaited`, `takeAnswered` returns this identifier later.
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
            unsentBytes = output.count
            if isAwaited { answered.append((Int32(identifier), isTaken: true)) }
        } else {
            unanswered.insert(identifier)
            if isAwaited { awaited.insert(identifier) }
            if mustWait { waiting.append(packet) } else { room -= 1 }
        }
        return Int32(identifier)
    }

    /// Takes out the awaited messages that the broker has taken or refused since the last call; at QoS 0, the messages
    /// that were appended.
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

    /// Appends DISCONNECT.
    package func appendDisconnect() { output.append { $0.appendDisconnect() } }

    // MARK: The end

    /// Notes the end of the connection. The first reason stands.
    package func close(_ reason: String) {
        if case .closed = state { return }
        state = .closed(reason: reason)
    }

    /// Notes that the broker has closed the connection without DISCONNECT. Returns the error.
    package func ended() -> MQTTError {
        isEndOfStream = true
        return lost()
    }

    private func closed(_ reason: String) -> MQTTError {
        state = .closed(reason: reason)
        return lost()
    }

    /// Returns the error of a connection that has ended.
    package func lost() -> MQTTError {
        var error = MQTTError(kind: .lost, message: "the connection was lost")
        if case .closed(let reason) = state {
            error = MQTTError(
                kind: isRefused ? .refused : .lost, message: reason, isAboutCredentials: isAboutCredentials)
        }
        (error.disconnectReason, error.isEndOfStream) = (disconnectReason, isEndOfStream)
        return error
    }
}

extension MQTTError {
    /// Returns this error of a connection that ended before CONNACK, with the cause that is most likely.
    package func beforeConnectAnswer(_ broker: BrokerAddress) -> MQTTError {
        guard kind == .lost else { return self }
        // A port with another protocol causes this error.
        return because(
            "before CONNECT was answered: is it a port for MQTT \(broker.isTLS ? "with TLS" : "without TLS")?")
    }
}
