/// The topics of a deployment, under its root (docs/protocol.md, section 1).
public struct Topics: Sendable, Equatable {
    public static let defaultRoot = "bellwire/v1"

    /// `bellwire/v1` unless configured otherwise.
    public let root: String

    /// The form of a root that `init` accepts, in words, for error messages.
    package static let rootForm =
        "levels with / between them, none empty, at most \(maxRootBytes) bytes of UTF-8, "
        + "no + or #, no control characters, no $ in front"

    /// The rest of a topic is far shorter than the root, and a topic may have 65,535 bytes.
    private static let maxRootBytes = 256

    /// Nil when `root` does not have the form of `rootForm`: brokers drop a client that names such a topic, or deliver
    /// its messages to other clients.
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
        // Bytes of command lines and files that are not UTF-8 are read as U+FFFD. Two different roots could become the
        // same root that way.
        case 0xFFFD: false
        case let value where value & 0xFFFE == 0xFFFE: false
        default: scalar != "+" && scalar != "#"
        }
    }

    /// The topics under the default root.
    public static let standard = Topics()!

    package func up(_ device: DeviceAddress) -> String { "\(root)/up/\(level(device))" }
    package func presence(_ device: DeviceAddress) -> String { "\(root)/presence/\(level(device))" }
    package func down(_ user: UserID) -> String { "\(root)/down/\(Self.encode(user))" }
    package func down(_ device: DeviceAddress) -> String { "\(root)/down/\(level(device))" }

    /// The shared subscriptions of the coordinators of `group`. The broker gives each message to a single coordinator.
    package func sharedFilters(group: String) -> [String] {
        ["$share/\(group)/\(root)/up/#", "$share/\(group)/\(root)/presence/#"]
    }

    /// The prefix of all topics to devices.
    package var allDown: String { "\(root)/down/" }

    /// The topic on which a coordinator sends itself messages, to see whether the broker delivers.
    package func canary(of coordinator: String) -> String { "\(root)/canary/\(coordinator)" }
    /// The topic of the same messages through the shared subscription.
    package var sharedCanary: String { "\(root)/canary" }

    /// The topic on which coordinators tell the broker's plugin the disabled users.
    package var disabledUsers: String { "\(root)/control/disabled" }

    /// The topic for messages that a coordinator with a connection to `broker` is to publish there. The final topic is
    /// the message's Response Topic.
    package func relay(to broker: String) -> String { "\(root)/relay/\(broker)" }

    /// The MQTT client id of a device. The broker keeps a single connection per client id; a newer connection replaces
    /// the older.
    package static func clientID(_ device: DeviceAddress) -> String {
        "\(encode(device.userID))/\(device.deviceID)"
    }

    /// The device of a client id; nil when the client id has another form.
    package static func device(clientID: String) -> DeviceAddress? {
        var clientID = clientID
        return clientID.withUTF8 { bytes in
            var levels = Levels(rest: bytes[...])
            guard let user = levels.next(), let device = levels.next(), levels.isOver, let userID = decode(user),
                let deviceID = String(device).flatMap(DeviceID.init)
            else { return nil }
            return DeviceAddress(userID: userID, deviceID: deviceID)
        }
    }

    private func level(_ device: DeviceAddress) -> String { "\(Self.encode(device.userID))/\(device.deviceID)" }
}

/// The facts that a coordinator reads from the topic of a message. The sender's identity comes from the topic, never
/// from the payload.
package enum InboundTopic: Equatable, Sendable {
    case up(DeviceAddress)
    case presence(DeviceAddress)
    /// A topic under `up` or `presence` that is not canonical or names no valid id. `mirror` has the same levels under
    /// `down`. Only the sender can be subscribed to `mirror`, since no valid device has that topic.
    case refused(mirror: String)
    /// A topic of another root, or with too few levels. There is no topic of the sender alone for an answer.
    case foreign
    /// A coordinator's message to itself.
    case canary
    /// A message for the broker with this name, from a coordinator without a connection to that broker.
    case relay(String)
}

extension Topics {
    package func parse(_ topic: String) -> InboundTopic {
        var topic = topic
        return topic.withUTF8 { parse($0) }
    }

    private func parse(_ topic: UnsafeBufferPointer<UInt8>) -> InboundTopic {
        guard topic.starts(with: root.utf8) else { return .foreign }
        var levels = Levels(rest: topic[root.utf8.count...])
        guard let first = levels.next(), first.isEmpty, let kind = levels.next() else { return .foreign }
        let isUp = kind.elementsEqual("up".utf8)
        guard isUp || kind.elementsEqual("presence".utf8) else {
            if kind.elementsEqual("canary".utf8) { return .canary }
            guard kind.elementsEqual("relay".utf8), !levels.isOver else { return .foreign }
            return String(levels.rest).map(InboundTopic.relay) ?? .foreign
        }
        let own = levels.rest
        guard let user = levels.next(), let device = levels.next() else { return .foreign }
        guard levels.isOver, let userID = Self.decode(user), let deviceID = String(device).flatMap(DeviceID.init) else {
            return .refused(mirror: "\(root)/down/" + (String(own) ?? ""))
        }
        let address = DeviceAddress(userID: userID, deviceID: deviceID)
        return isUp ? .up(address) : .presence(address)
    }

    /// The levels of a topic: the parts between the slashes.
    private struct Levels {
        private(set) var rest: Slice<UnsafeBufferPointer<UInt8>>
        private(set) var isOver = false

        init(rest: Slice<UnsafeBufferPointer<UInt8>>) { self.rest = rest }

        mutating func next() -> Slice<UnsafeBufferPointer<UInt8>>? {
            guard !isOver else { return nil }
            guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else {
                isOver = true
                defer { rest = rest[rest.endIndex...] }
                return rest
            }
            defer { rest = rest[(slash + 1)...] }
            return rest[..<slash]
        }
    }

    /// Percent-encodes exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#`, in upper-case hex (section 1).
    package static func encode(_ user: UserID) -> String {
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
    package static func decode(_ level: Substring.UTF8View) -> UserID? {
        Array(level).withUnsafeBufferPointer { decode($0[...]) }
    }

    private static func decode(_ level: Slice<UnsafeBufferPointer<UInt8>>) -> UserID? {
        // Most levels need no decoding.
        guard level.contains(where: mustBeEncoded) else { return String(level).flatMap(UserID.init) }
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

extension String {
    /// Nil when `bytes` are not UTF-8.
    fileprivate init?(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) {
        self.init(validUTF8: UnsafeBufferPointer(rebasing: bytes))
    }
}
