/// The properties of a received packet that this client uses (MQTT 5, section 2.2.2).
package struct PacketProperties {
    var correlationData: [UInt8]?
    var responseTopic: String?
    /// The values of the requested user properties, by name. The last of several properties with the same name
    /// counts: a broker adds its own property after the sender's properties.
    var userProperties: [String: String] = [:]
    package private(set) var receiveMaximum: UInt16?
    package private(set) var maximumQoS: UInt8?
    package private(set) var maximumPacketSize: UInt32?
    /// Whether the broker keeps retained messages: 0 or 1; nil counts as 1.
    package private(set) var retainAvailable: UInt8?
    /// Whether the broker has shared subscriptions: 0 or 1; nil counts as 1.
    package private(set) var sharedSubscriptions: UInt8?
    /// The seconds that are left of a message's expiry.
    var messageExpiry: UInt32?
    var serverKeepAlive: UInt16?
    var reason: String?

    init() {}

    init(_ reader: inout PacketReader, userProperties wanted: [String] = []) throws(MalformedPacket) {
        let length = try reader.variableInteger()
        guard length > 0 else { return }
        var fields = PacketReader(try reader.take(length))
        while !fields.isAtEnd {
            switch try fields.byte() {
            case Self.correlationDataID: correlationData = Array(try fields.binary())
            case Self.responseTopicID: responseTopic = try fields.text()
            case Self.userPropertyID:
                let (name, value) = (try fields.text(), try fields.text())
                if wanted.contains(name) { userProperties[name] = value }
            case 0x21:
                receiveMaximum = try fields.uint16()
                guard receiveMaximum != 0 else { throw MalformedPacket(reason: "a receive maximum of 0") }
            case 0x24: maximumQoS = try fields.byte()
            case 0x27:
                maximumPacketSize = try fields.uint32()
                guard maximumPacketSize != 0 else { throw MalformedPacket(reason: "a maximum packet size of 0") }
            case 0x25: retainAvailable = try fields.byte()
            case 0x2A: sharedSubscriptions = try fields.byte()
            case Self.messageExpiryID: messageExpiry = try fields.uint32()
            case 0x13: serverKeepAlive = try fields.uint16()
            case 0x1F: reason = try fields.text()
            // Properties that this client does not use, by their type.
            case 0x01, 0x17, 0x19, 0x28, 0x29: _ = try fields.byte()
            case 0x22, 0x23: _ = try fields.uint16()
            case 0x11, 0x18: _ = try fields.uint32()
            case 0x0B: _ = try fields.variableInteger()
            case 0x03, 0x12, 0x15, 0x16, 0x1A, 0x1C: _ = try fields.binary()
            case let id: throw MalformedPacket(reason: "property \(id) is not known")
            }
        }
    }

    static let messageExpiryID: UInt8 = 0x02
    static let responseTopicID: UInt8 = 0x08
    static let correlationDataID: UInt8 = 0x09
    static let receiveMaximumID: UInt8 = 0x21
    static let userPropertyID: UInt8 = 0x26
    static let maximumPacketSizeID: UInt8 = 0x27
}
