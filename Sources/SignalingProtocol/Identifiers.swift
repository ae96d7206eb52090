/// An identifier that is compared, ordered and hashed as bytes (docs/protocol.md, section 1).
///
/// Swift's `String` treats canonically equivalent spellings (NFC and NFD) as equal. The store, MQTT and clients in
/// other languages treat two such spellings as two users, and `==` must do the same here.
public protocol ByteIdentifier: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The identifier as text.
    var string: String { get }

    /// Nil when `string` is not a valid identifier of this kind.
    init?(_ string: String)
}

extension ByteIdentifier {
    @inlinable
    public static func == (lhs: Self, rhs: Self) -> Bool {
        let left = lhs.string.utf8
        let right = rhs.string.utf8
        guard left.count == right.count else { return false }
        let isSame = left.withContiguousStorageIfAvailable { left in
            right.withContiguousStorageIfAvailable { haveSameBytes(UnsafeRawBufferPointer(left), .init($0)) }
        }
        return (isSame ?? nil) ?? left.elementsEqual(right)
    }

    @inlinable
    public static func < (lhs: Self, rhs: Self) -> Bool {
        lhs.string.utf8.lexicographicallyPrecedes(rhs.string.utf8)
    }

    @inlinable
    public func hash(into hasher: inout Hasher) {
        var copy = string
        copy.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }

    public var description: String { string }
}

/// A user: 1–64 bytes of UTF-8, without U+0080–U+009F and without Unicode noncharacters (section 1).
public struct UserID: ByteIdentifier {
    public static let maxBytes = 64
    public let string: String

    public init?(_ string: String) {
        guard (1...Self.maxBytes).contains(string.utf8.count) else { return nil }
        guard !string.utf8.allSatisfy({ $0 < 0x80 }) else {
            self.string = string
            return
        }
        for scalar in string.unicodeScalars {
            // Brokers drop a client that uses a topic with such a code point, so no such user may exist.
            if (0x80...0x9F).contains(scalar.value) { return nil }
            if (0xFDD0...0xFDEF).contains(scalar.value) || scalar.value & 0xFFFE == 0xFFFE { return nil }
        }
        self.string = string
    }
}

/// A device of a user: 1–64 of `A-Z a-z 0-9 . _ ~ -` (section 1).
public struct DeviceID: ByteIdentifier {
    public let string: String

    /// The device name of a backend that acts for a user and means none of the user's devices (section 1, Backends). No
    /// phone has this name.
    public static let server = DeviceID("server")!

    public init?(_ string: String) {
        guard isToken(string, extra: [UInt8(ascii: "."), UInt8(ascii: "~")]) else { return nil }
        self.string = string
    }
}

/// A call: 1–64 of `A-Z a-z 0-9 _ -` (section 1).
public struct CallID: ByteIdentifier {
    public let string: String

    public init?(_ string: String) {
        guard isToken(string) else { return nil }
        self.string = string
    }
}

/// The id of a request, chosen by the device: 1–64 of `A-Z a-z 0-9 _ -` (section 1).
package struct RequestID: ByteIdentifier {
    package let string: String

    package init?(_ string: String) {
        guard isToken(string) else { return nil }
        self.string = string
    }
}

/// The name of an outbox: of a webhook endpoint in the operator's settings (1–64 of `A-Z a-z 0-9 _ -`), or of the rooms
/// of a media server (`rooms:` and the server's name). No webhook endpoint can have the name of rooms.
package struct EndpointName: ByteIdentifier {
    private static let ofRooms = "rooms:"

    package let string: String

    package init?(_ string: String) {
        let name = string.hasPrefix(Self.ofRooms) ? String(string.dropFirst(Self.ofRooms.count)) : string
        guard isToken(name) else { return nil }
        self.string = string
    }

    /// Returns the name of the rooms of a media server; nil when the server's name is invalid.
    package static func rooms(of server: String) -> EndpointName? { EndpointName(ofRooms + server) }

    /// The media server whose rooms the outbox is about; nil for a webhook endpoint.
    package var mediaServer: String? {
        string.hasPrefix(Self.ofRooms) ? String(string.dropFirst(Self.ofRooms.count)) : nil
    }
}

/// A peer message: 1–64 of `A-Z a-z 0-9 _ -` (section 1).
public struct MessageID: ByteIdentifier {
    public let string: String

    public init?(_ string: String) {
        guard isToken(string) else { return nil }
        self.string = string
    }
}

/// A device together with its user.
public struct DeviceAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let userID: UserID
    public let deviceID: DeviceID

    public init(userID: UserID, deviceID: DeviceID) {
        self.userID = userID
        self.deviceID = deviceID
    }

    public static func < (lhs: Self, rhs: Self) -> Bool {
        lhs.userID == rhs.userID ? lhs.deviceID < rhs.deviceID : lhs.userID < rhs.userID
    }

    public var description: String { "\(userID)/\(deviceID)" }
}

/// Compares eight bytes at a time. Both buffers must have the same length.
@usableFromInline
func haveSameBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    var place = 0
    while place + 8 <= left.count {
        guard
            left.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: place, as: UInt64.self)
        else { return false }
        place += 8
    }
    while place < left.count {
        guard left[place] == right[place] else { return false }
        place += 1
    }
    return true
}

/// The FNV-1a hash of the bytes. Unlike Swift's own hashing, the result is the same on every machine and in every run.
@inlinable
package func stableHash(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
}

/// Whether `string` has 1–64 bytes of the id alphabet `A-Z a-z 0-9 _ -` and of `extra` (section 1).
package func isToken(_ string: String, extra: [UInt8] = []) -> Bool {
    guard (1...64).contains(string.utf8.count) else { return false }
    return string.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default:
            extra.contains(byte)
        }
    }
}
