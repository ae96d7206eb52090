/// The packets that a client sends (MQTT 5, chapter 3), each appended to the bytes to send.
extension [UInt8] {
    mutating func appendConnect(_ configuration: MQTTSession.Configuration) {
        let broker = configuration.broker
        var body: [UInt8] = []
        body.append(text: "MQTT")
        body.append(5)
        var flags: UInt8 = 0x02  // a clean start
        if let will = configuration.will { flags |= 0x04 | UInt8(will.qos.rawValue) << 3 | (will.retain ? 0x20 : 0) }
        if broker.password != nil { flags |= 0x40 }
        if broker.username != nil { flags |= 0x80 }
        body.append(flags)
        body.append(uint16: Swift.max(1, configuration.keepAlive))
        var properties: [UInt8] = [PacketProperties.receiveMaximumID]
        properties.append(uint16: Swift.max(1, configuration.inflightLimit))
        properties.append(PacketProperties.maximumPacketSizeID)
        properties.append(uint32: UInt32(clamping: configuration.maxPacketBytes))
        body.append(variableInteger: properties.count)
        body += properties
        body.append(text: configuration.clientID)
        if let will = configuration.will {
            body.append(0)  // no properties
            body.append(text: will.topic)
            body.append(binary: will.payload)
        }
        if let username = broker.username { body.append(text: username) }
        if let password = broker.password { body.append(text: password) }
        append(0x10)
        append(variableInteger: body.count)
        self += body
    }

    /// Appends a message. Returns false, without appending, when the packet would have more than `maxBytes` bytes.
    package mutating func appendPublish(_ message: MQTTMessage, qos: QoS, identifier: UInt16, maxBytes: Int) -> Bool {
        let properties =
            (message.expirySeconds == nil ? 0 : 5) + (message.responseTopic.map { 3 + $0.utf8.count } ?? 0)
            + (message.correlationData.map { 3 + $0.count } ?? 0)
            + message.userProperties.reduce(0) { $0 + 5 + $1.key.utf8.count + $1.value.utf8.count }
        let length =
            2 + message.topic.utf8.count + (qos == .atMostOnce ? 0 : 2) + variableIntegerLength(properties) + properties
            + message.payload.count
        guard length <= longestRemainder, 1 + variableIntegerLength(length) + length <= maxBytes else { return false }
        append(0x30 | UInt8(qos.rawValue) << 1 | (message.retain ? 1 : 0))
        append(variableInteger: length)
        append(text: message.topic)
        if qos != .atMostOnce { append(uint16: identifier) }
        append(variableInteger: properties)
        if let expiry = message.expirySeconds {
            append(PacketProperties.messageExpiryID)
            append(uint32: expiry)
        }
        if let topic = message.responseTopic {
            append(PacketProperties.responseTopicID)
            append(text: topic)
        }
        if let correlation = message.correlationData {
            append(PacketProperties.correlationDataID)
            append(binary: correlation)
        }
        for (name, value) in message.userProperties {
            append(PacketProperties.userPropertyID)
            append(text: name)
            append(text: value)
        }
        append(contentsOf: message.payload)
        return true
    }

    mutating func appendPublishAnswer(_ identifier: UInt16) {
        append(0x40)
        append(2)
        append(uint16: identifier)
    }

    mutating func appendSubscribe(_ filter: String, qos: QoS, wantsRetained: Bool = false, identifier: UInt16) {
        append(0x82)
        append(variableInteger: 2 + 1 + 2 + filter.utf8.count + 1)
        append(uint16: identifier)
        append(0)
        append(text: filter)
        // Without `wantsRetained`, the client asks for no retained messages (MQTT 5, section 3.8.3.1), because Bellwire
        // publishes no retained messages.
        append(UInt8(qos.rawValue) | (wantsRetained ? 0 : 0x20))
    }

    mutating func appendUnsubscribe(_ filter: String, identifier: UInt16) {
        append(0xA2)
        append(variableInteger: 2 + 1 + 2 + filter.utf8.count)
        append(uint16: identifier)
        append(0)
        append(text: filter)
    }

    mutating func appendPing() { self += [0xC0, 0] }

    mutating func appendDisconnect() { self += [0xE0, 0] }
}

extension MQTTMessage {
    /// The reason why the message cannot be published; nil when the message can be published. A message that a broker
    /// considers malformed would end the connection (MQTT 5, sections 1.5.4 and 4.7).
    var problem: String? {
        if topic.isEmpty { return "the topic is empty" }
        if let problem = topic.problem("the topic", isTopic: true) { return problem }
        if let problem = responseTopic?.problem("the response topic", isTopic: true) { return problem }
        if let data = correlationData, data.count > 65_535 { return "the correlation data has \(data.count) bytes" }
        for (name, value) in userProperties {
            let problem = name.problem("the name of a user property") ?? value.problem("the user property \(name)")
            if let problem { return problem }
        }
        return nil
    }
}

extension String {
    /// The reason why a packet must not hold this text; nil for a text that a packet may hold.
    fileprivate func problem(_ place: String, isTopic: Bool = false) -> String? {
        guard utf8.count <= 65_535 else { return "\(place) has \(utf8.count) bytes; at most 65,535 are allowed" }
        let isPlain = utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != 0x2B && $0 != 0x23 }
        if isPlain { return nil }
        for scalar in unicodeScalars {
            switch scalar.value {
            case 0x2B, 0x23: if isTopic { return "\(place) holds a wildcard" }
            case 0x00...0x1F, 0x7F...0x9F: return "\(place) holds a control character"
            case 0xFDD0...0xFDEF,
                _ where scalar.value & 0xFFFE == 0xFFFE:
                return "\(place) holds a noncharacter"
            default: continue
            }
        }
        return nil
    }
}
