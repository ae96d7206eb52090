/// A packet that a broker sends (MQTT 5, chapter 3).
package enum InboundPacket {
    case connectAnswer(reason: UInt8, PacketProperties)
    /// `identifier` is 0 at QoS 0.
    case message(MQTTMessage, identifier: UInt16)
    case publishAnswer(identifier: UInt16, reason: UInt8)
    /// The answer to a subscribe or unsubscribe request.
    case subscriptionAnswer(identifier: UInt16, isGranted: Bool)
    case pong
    case disconnect(reason: UInt8, text: String?)

    /// Returns the first packet of `bytes` and its size in bytes, or nil while the packet has not arrived completely.
    /// `userProperties` are the names of the user properties to read. Throws when no broker may send such a packet, or
    /// for a packet of more than `maxBytes` bytes.
    package static func first(
        of bytes: UnsafeBufferPointer<UInt8>, userProperties: [String] = [], maxBytes: Int
    ) throws(MalformedPacket) -> (packet: InboundPacket, size: Int)? {
        guard bytes.count >= 2 else { return nil }
        var length = 0
        var place = 1
        repeat {
            guard place < bytes.count else { return nil }
            guard place <= 4 else { throw MalformedPacket(reason: "a length has more than four bytes") }
            length |= Int(bytes[place] & 0x7F) << (7 * (place - 1))
            place += 1
        } while bytes[place - 1] >= 0x80
        let size = place + length
        guard size <= maxBytes else {
            throw MalformedPacket(reason: "a packet has \(size) bytes; at most \(maxBytes) are read")
        }
        guard bytes.count >= size else { return nil }
        let reader = PacketReader(UnsafeBufferPointer(rebasing: bytes[place..<size]))
        return (try decode(bytes[0], reader, userProperties), size)
    }

    private static func decode(
        _ head: UInt8, _ body: PacketReader, _ userProperties: [String]
    ) throws(MalformedPacket) -> InboundPacket {
        var body = body
        switch head {
        case 0x20:
            _ = try body.byte()
            let reason = try body.byte()
            return .connectAnswer(reason: reason, try PacketProperties(&body))
        case 0x30...0x3F: return try message(head, body, userProperties)
        case 0x40:
            let identifier = try body.uint16()
            return .publishAnswer(identifier: identifier, reason: body.isAtEnd ? 0 : try body.byte())
        case 0x90, 0xB0:
            let identifier = try body.uint16()
            _ = try PacketProperties(&body)
            let reasons = body.rest()
            // Each request has a single topic filter. Unsubscribing from a filter without a subscription is no refusal.
            return .subscriptionAnswer(
                identifier: identifier, isGranted: head == 0xB0 || !reasons.isEmpty && reasons.allSatisfy { $0 < 0x80 })
        case 0xD0: return .pong
        case 0xE0:
            let reason = body.isAtEnd ? 0 : try body.byte()
            return .disconnect(reason: reason, text: body.isAtEnd ? nil : try PacketProperties(&body).reason)
        default: throw MalformedPacket(reason: "a packet of type \(head >> 4) came, with flags \(head & 0x0F)")
        }
    }

    private static func message(
        _ head: UInt8, _ body: PacketReader, _ userProperties: [String]
    ) throws(MalformedPacket) -> InboundPacket {
        var body = body
        // This client subscribes with QoS 0 and 1 only.
        guard let qos = QoS(rawValue: Int32(head >> 1 & 0x03)) else {
            throw MalformedPacket(reason: "a message of QoS \(head >> 1 & 0x03) came")
        }
        let topic = try body.text()
        guard !topic.isEmpty else { throw MalformedPacket(reason: "a message without a topic came") }
        let identifier = qos == .atMostOnce ? 0 : try body.uint16()
        guard qos == .atMostOnce || identifier != 0 else {
            throw MalformedPacket(reason: "a message of QoS 1 came without an identifier")
        }
        let properties = try PacketProperties(&body, userProperties: userProperties)
        let message = MQTTMessage(
            topic: topic, payload: Array(body.rest()), qos: qos, retain: head & 0x01 != 0,
            correlationData: properties.correlationData, responseTopic: properties.responseTopic,
            expirySeconds: properties.messageExpiry, userProperties: properties.userProperties)
        return .message(message, identifier: identifier)
    }
}
