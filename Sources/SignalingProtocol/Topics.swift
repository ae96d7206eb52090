/// The topics of one deployment, under one root (docs/protocol.md, section 1).
public struct Topics: Sendable, Equatable {
    public static let defaultRoot = "bellwire/v1"

    /// `bellwire/v1` unless configured otherwise.
    public let root: String

    /// What `init` takes, for who gave something else.
    public static let rootForm =
        "levels with / between them, none empty, at most \(maxRootBytes) bytes of UTF-8, "
        + "no + or #, no control characters, no $ in front"

    /// What follows the root is far shorter, and a topic may have 65,535 bytes.
    private static let maxRootBytes = 256

    /// Nil when `root` is not of `rootForm`: brokers drop a client that names such a topic, or hand its messages to others.
    public init?(root: String = Topics.defaultRoot) {
        let levels = root.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard !levels.contains(where: \.isEmpty), root.utf8.count <= Self.maxRootBytes,
            root.utf8.first != UInt8(ascii: "$"), root.unicodeScalars.allSatisfy(Self.mayStandInRoot)
        else { return nil }
        self.root = root
    }

    private static func mayStandInRoot(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x00...0x1F, 0x7F...0x9F, 0xFDD0...0xFDEF: false
        // What command lines and files hold that is not UTF-8 is read as this one: two such roots would be the same.
        case 0xFFFD: false
        case let value where value & 0xFFFE == 0xFFFE: false
        default: scalar != "+" && scalar != "#"
        }
    }

    /// The default root.
    public static let standard = Topics()!

    public func up(_ device: DeviceAddress) -> String { "\(root)/up/\(level(device))" }
    public func presence(_ device: DeviceAddress) -> String { "\(root)/presence/\(level(device))" }
    public func down(_ user: UserID) -> String { "\(root)/down/\(Self.encode(user))" }
    public func down(_ device: DeviceAddress) -> String { "\(root)/down/\(level(device))" }

    /// What the coordinators of `group` subscribe to: each message reaches one of them.
    public func sharedFilters(group: String) -> [String] {
        ["$share/\(group)/\(root)/up/#", "$share/\(group)/\(root)/presence/#"]
    }

    /// The MQTT client id of a device: one connection per device, a newer one replaces the older.
    public static func clientID(_ device: DeviceAddress) -> String {
        "\(encode(device.userID))/\(device.deviceID)"
    }

    /// The device of a client id; nil for one that is not of this form.
    public static func device(clientID: String) -> DeviceAddress? {
        let levels = clientID.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard levels.count == 2, let userID = decode(levels[0]), let deviceID = String(levels[1]).flatMap(DeviceID.init)
        else { return nil }
        return DeviceAddress(userID: userID, deviceID: deviceID)
    }

    private func level(_ device: DeviceAddress) -> String { "\(Self.encode(device.userID))/\(device.deviceID)" }
}

/// What a coordinator learns from the topic of a message: the sender's identity, never taken from the payload.
public enum InboundTopic: Equatable, Sendable {
    case up(DeviceAddress)
    case presence(DeviceAddress)
    /// Under `up` or `presence`, but not canonical or not a valid id. `mirror` is the same levels under `down`: only
    /// the sender can be listening there, since no valid device has that topic.
    case refused(mirror: String)
    /// Not of this root, or with too few levels: there is no topic of the sender's alone to answer on.
    case foreign
}

extension Topics {
    public func parse(_ topic: String) -> InboundTopic {
        guard topic.utf8.starts(with: root.utf8) else { return .foreign }
        let levels = topic.utf8.dropFirst(root.utf8.count)
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard levels.count >= 4, levels[0].isEmpty else { return .foreign }
        let isUp = levels[1].elementsEqual("up".utf8)
        guard isUp || levels[1].elementsEqual("presence".utf8) else { return .foreign }
        guard levels.count == 4, let userID = Self.decode(levels[2]),
            let deviceID = String(levels[3]).flatMap(DeviceID.init)
        else {
            return .refused(
                mirror: "\(root)/down/" + levels.dropFirst(2).map { String($0) ?? "" }.joined(separator: "/"))
        }
        let device = DeviceAddress(userID: userID, deviceID: deviceID)
        return isUp ? .up(device) : .presence(device)
    }

    /// Percent-encodes exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#`, in upper-case hex (section 1).
    public static func encode(_ user: UserID) -> String {
        if !user.string.utf8.contains(where: mustBeEncoded) { return user.string }
        var bytes: [UInt8] = []
        for byte in user.string.utf8 {
            if mustBeEncoded(byte) {
                bytes += [UInt8(ascii: "%"), hexDigits[Int(byte >> 4)], hexDigits[Int(byte & 15)]]
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The user of a topic level; nil unless the level is in canonical form, so that no user has two spellings.
    public static func decode(_ level: Substring.UTF8View) -> UserID? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(level.count)
        var rest = level.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                if mustBeEncoded(byte) { return nil }
                bytes.append(byte)
                continue
            }
            guard let high = rest.next().flatMap(upperHexValue), let low = rest.next().flatMap(upperHexValue),
                mustBeEncoded(high << 4 | low)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self).flatMap(UserID.init)
    }

    private static let hexDigits = Array("0123456789ABCDEF".utf8)

    private static func mustBeEncoded(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x00...0x1F, 0x7F, UInt8(ascii: "%"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "#"): true
        default: false
        }
    }

    private static func upperHexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
