import Testing

@testable import MQTTClient
@testable import MQTTProtocol

/// Packets byte for byte (MQTT 5, chapter 3).
struct PacketTests {
    private func first(
        _ bytes: [UInt8], userProperties: [String] = [], maxBytes: Int = 1_000
    ) throws(MalformedPacket) -> (packet: InboundPacket, size: Int)? {
        try bytes.withUnsafeBufferPointer { buffer throws(MalformedPacket) in
            try InboundPacket.first(of: buffer, userProperties: userProperties, maxBytes: maxBytes)
        }
    }

    /// A message "t" of QoS 1, identifier 0x0102, with these properties, payload "hi".
    private func message(_ properties: [UInt8] = []) -> [UInt8] {
        let body = [0, 1, 0x74, 1, 2, UInt8(properties.count)] + properties + [0x68, 0x69]
        return [0x32, UInt8(body.count)] + body
    }

    @Test func aMessage() throws {
        let found = try #require(try first(message()))
        #expect(found.size == message().count)
        guard case .message(let message, let identifier) = found.packet else {
            Issue.record("\(found.packet)")
            return
        }
        #expect(identifier == 0x0102)
        #expect(message == MQTTMessage(topic: "t", payload: [0x68, 0x69]))
    }

    @Test func aMessageOfQoS0HasNoIdentifier() throws {
        guard case .message(let message, let identifier)? = try first([0x31, 5, 0, 1, 0x74, 0, 0x68])?.packet else {
            Issue.record("no message")
            return
        }
        #expect(identifier == 0)
        #expect(message == MQTTMessage(topic: "t", payload: [0x68], qos: .atMostOnce, retain: true))
    }

    @Test func whatMeansNothingHereIsPassedOver() throws {
        let properties: [UInt8] = [
            0x01, 1,  // payload format
            0x02, 0, 0, 0, 9,  // expiry
            0x03, 0, 1, 0x63,  // content type
            0x08, 0, 1, 0x72,  // response topic
            0x0B, 0x80, 0x01,  // subscription identifier
            0x26, 0, 1, 0x61, 0, 1, 0x31,  // a: 1
            0x09, 0, 2, 7, 8,  // correlation data
            0x26, 0, 1, 0x62, 0, 1, 0x32,  // b: 2
            0x26, 0, 1, 0x61, 0, 1, 0x33,  // a: 3
        ]
        guard case .message(let message, _)? = try first(message(properties), userProperties: ["a", "c"])?.packet else {
            Issue.record("no message")
            return
        }
        #expect(message.correlationData == [7, 8])
        #expect(message.userProperties == ["a": "3"], "the last one of the name, and no other name")
        #expect(message.payload == [0x68, 0x69])
    }

    /// However the bytes are cut, a packet is not taken before it is whole, and no byte after the packet is taken.
    @Test func aPacketIsTakenWhenItIsWhole() throws {
        let bytes = message([0x09, 0, 1, 7])
        for count in 0..<bytes.count { #expect(try first(Array(bytes[..<count])) == nil) }
        #expect(try first(bytes + [0xD0, 0])?.size == bytes.count)
    }

    @Test func answers() throws {
        func text(_ bytes: [UInt8]) throws -> String {
            switch try first(bytes)?.packet {
            case .connectAnswer(let reason, let properties):
                "connect \(reason) \(properties.receiveMaximum ?? 0) \(properties.maximumPacketSize ?? 0) "
                    + "\(properties.serverKeepAlive ?? 0) \(properties.maximumQoS ?? 9)"
            case .publishAnswer(let identifier, let reason): "publish \(identifier) \(reason)"
            case .subscriptionAnswer(let identifier, let isGranted): "subscription \(identifier) \(isGranted)"
            case .pong: "pong"
            case .disconnect(let reason, let text): "disconnect \(reason) \(text ?? "-")"
            case .message: "message"
            case nil: "nothing"
            }
        }
        let allowed: [UInt8] = [0x21, 0, 20, 0x24, 0, 0x27, 0, 1, 0, 0, 0x13, 0, 7, 0x25, 0]
        #expect(
            try text([0x20, UInt8(3 + allowed.count), 0, 0, UInt8(allowed.count)] + allowed) == "connect 0 20 65536 7 0"
        )
        #expect(try text([0x20, 3, 0, 0x87, 0]) == "connect 135 0 0 0 9")
        #expect(try text([0x40, 2, 1, 0]) == "publish 256 0")
        #expect(try text([0x40, 3, 0, 5, 0x97]) == "publish 5 151")
        #expect(try text([0x90, 4, 0, 5, 0, 1]) == "subscription 5 true")
        #expect(try text([0x90, 4, 0, 5, 0, 0x87]) == "subscription 5 false")
        #expect(try text([0x90, 3, 0, 5, 0]) == "subscription 5 false")
        #expect(try text([0xB0, 4, 0, 5, 0, 0x11]) == "subscription 5 true")
        #expect(try text([0xD0, 0]) == "pong")
        #expect(try text([0xE0, 0]) == "disconnect 0 -")
        #expect(try text([0xE0, 1, 0x8E]) == "disconnect 142 -")
        #expect(try text([0xE0, 7, 0x98, 5, 0x1F, 0, 2, 0x68, 0x69]) == "disconnect 152 hi")
    }

    @Test(
        arguments: [
            // Types and flags that no broker sends.
            [0x00, 0], [0x10, 0], [0x41, 2, 0, 1], [0xF0, 0],
            // Too short.
            [0x40, 1, 0], [0x20, 1, 0], [0x90, 1, 0],
            // QoS 3 and 2; without a topic; a topic beyond the packet.
            [0x36, 6, 0, 1, 0x74, 0, 1, 0], [0x34, 6, 0, 1, 0x74, 0, 1, 0], [0x30, 3, 0, 0, 0], [0x30, 2, 0, 9],
            // Properties beyond the packet, unknown, with data beyond them; a length of five bytes.
            [0x30, 5, 0, 1, 0x74, 9, 0], [0x30, 5, 0, 1, 0x74, 1, 0x7E], [0x30, 7, 0, 1, 0x74, 3, 0x09, 0, 9],
            [0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1],
        ] as [[UInt8]])
    func whatIsNoPacketIsRefused(_ bytes: [UInt8]) {
        #expect(throws: MalformedPacket.self) { try first(bytes) }
    }

    @Test func aPacketThatIsTooLargeIsRefusedBeforeItArrives() {
        #expect(throws: MalformedPacket.self) { try first([0x30, 0xFF, 0x7F], maxBytes: 1_000) }
    }

    @Test func whatIsSent() {
        var bytes: [UInt8] = []
        var publication = MQTTMessage(topic: "t", payload: [0x68], correlationData: [7, 8], expirySeconds: 258)
        let fits1 = bytes.appendPublish(publication, qos: .atLeastOnce, identifier: 0x0304, maxBytes: .max)
        #expect(fits1)
        #expect(bytes == [0x32, 17, 0, 1, 0x74, 3, 4, 10, 0x02, 0, 0, 1, 2, 0x09, 0, 2, 7, 8, 0x68])
        bytes = []
        publication = MQTTMessage(topic: "t", payload: [], retain: true)
        let fits2 = bytes.appendPublish(publication, qos: .atMostOnce, identifier: 1, maxBytes: .max)
        #expect(fits2)
        #expect(bytes == [0x31, 4, 0, 1, 0x74, 0])
        bytes = []
        publication = MQTTMessage(topic: "t", payload: [0x68], userProperties: ["a": "12"])
        let fits3 = bytes.appendPublish(publication, qos: .atMostOnce, identifier: 1, maxBytes: 15)
        #expect(fits3)
        #expect(bytes == [0x30, 13, 0, 1, 0x74, 8, 0x26, 0, 1, 0x61, 0, 2, 0x31, 0x32, 0x68])
        let fits4 = bytes.appendPublish(publication, qos: .atMostOnce, identifier: 1, maxBytes: 14)
        #expect(!fits4)
        bytes = []
        bytes.appendPublishAnswer(0x0102)
        bytes.appendSubscribe("a/+", qos: .atLeastOnce, identifier: 5)
        bytes.appendUnsubscribe("a", identifier: 6)
        bytes.appendPing()
        bytes.appendDisconnect()
        #expect(
            bytes == [
                0x40, 2, 1, 2, 0x82, 9, 0, 5, 0, 0, 3, 0x61, 0x2F, 0x2B, 0x21, 0xA2, 6, 0, 6, 0, 0, 1, 0x61, 0xC0, 0,
                0xE0, 0,
            ])
    }

    @Test func aConnectWithAWillAndAPassword() {
        var broker = BrokerAddress(host: "h", port: 1)
        broker.username = "u"
        broker.password = "p"
        var configuration = MQTTConnection.Configuration(broker: broker, clientID: "c")
        configuration.keepAlive = 5
        configuration.maxPacketBytes = 65_536
        configuration.will = MQTTMessage(topic: "w", payload: [9])
        var bytes: [UInt8] = []
        bytes.appendConnect(configuration)
        #expect(
            bytes == [
                0x10, 35, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, 0xCE, 0, 5, 8, 0x21, 3, 0xE8, 0x27, 0, 1, 0, 0, 0, 1, 0x63,
                0, 0, 1, 0x77, 0, 1, 9, 0, 1, 0x75, 0, 1, 0x70,
            ])
    }

    /// With such a text the broker would end the connection.
    @Test(arguments: ["\u{1}", "\u{7F}", "\u{80}", "\u{FFFE}", String(repeating: "x", count: 65_536)])
    func textsThatNoPacketMayHoldAreRefused(_ text: String) {
        func problem(_ change: (inout MQTTMessage) -> Void) -> String? {
            var message = MQTTMessage(topic: "t", payload: [])
            change(&message)
            return message.problem
        }
        #expect(problem { $0.topic = text } != nil)
        #expect(problem { $0.responseTopic = text } != nil)
        #expect(problem { $0.userProperties = ["a": text] } != nil)
        #expect(problem { $0.userProperties = [text: "a"] } != nil)
        #expect(problem { $0.userProperties = ["a": "+#é"] } == nil)
        #expect(problem { $0.topic = "a/+" } != nil)
        #expect(problem { $0.topic = "" } != nil)
    }

    @Test func aPublicationBeyondWhatTheBrokerTakesLeavesNothingBehind() {
        var bytes: [UInt8] = [1]
        let message = MQTTMessage(topic: "t", payload: [UInt8](repeating: 0, count: 100))
        let fits3 = bytes.appendPublish(message, qos: .atMostOnce, identifier: 1, maxBytes: 105)
        #expect(!fits3)
        #expect(bytes == [1])
        let fits4 = bytes.appendPublish(message, qos: .atMostOnce, identifier: 1, maxBytes: 106)
        #expect(fits4)
        #expect(bytes.count == 107)
    }

    @Test(arguments: ["", "a+", "#", "a\u{0}", "a\u{7F}", "\u{85}"])
    func aTopicThatBrokersTakeForMalformed(_ topic: String) {
        #expect(MQTTMessage(topic: topic, payload: []).problem != nil)
    }

    @Test(arguments: [0xFDD0, 0xFDEF, 0xFFFE, 0xFFFF, 0x1_FFFF, 0x10_FFFE] as [UInt32])
    func aTopicWithANoncharacter(_ scalar: UInt32) throws {
        let topic = "a" + String(try #require(Unicode.Scalar(scalar)))
        #expect(MQTTMessage(topic: topic, payload: []).problem != nil)
    }

    @Test(arguments: ["a", "a/b c/~", "\u{e9}", "\u{1F4DE}", String(repeating: "a", count: 65_535)])
    func aTopicThatMayBePublishedTo(_ topic: String) {
        #expect(MQTTMessage(topic: topic, payload: []).problem == nil)
    }

    @Test func aTopicThatIsTooLong() {
        #expect(MQTTMessage(topic: String(repeating: "a", count: 65_536), payload: []).problem != nil)
    }

    @Test(arguments: [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, longestRemainder])
    func variableIntegers(_ value: Int) throws {
        var bytes: [UInt8] = []
        bytes.append(variableInteger: value)
        #expect(bytes.count == variableIntegerLength(value))
        let (read, isAtEnd) = try bytes.withUnsafeBufferPointer { buffer in
            var reader = PacketReader(buffer)
            return (try reader.variableInteger(), reader.isAtEnd)
        }
        #expect(read == value)
        #expect(isAtEnd)
    }
}
