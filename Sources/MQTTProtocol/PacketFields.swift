/// Bytes that are not valid MQTT 5, or more bytes than allowed.
package struct MalformedPacket: Error {
    package let reason: String
}

/// Reads the fields of a packet (MQTT 5, section 1.5).
struct PacketReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    mutating func byte() throws(MalformedPacket) -> UInt8 {
        guard index < bytes.count else { throw MalformedPacket(reason: "a packet ends within a field") }
        defer { index += 1 }
        return bytes[index]
    }

    mutating func uint16() throws(MalformedPacket) -> UInt16 {
        let high = try byte()
        return UInt16(high) << 8 | UInt16(try byte())
    }

    mutating func uint32() throws(MalformedPacket) -> UInt32 {
        let high = try uint16()
        return UInt32(high) << 16 | UInt32(try uint16())
    }

    /// Reads a variable byte integer of at most four bytes.
    mutating func variableInteger() throws(MalformedPacket) -> Int {
        var value = 0
        for shift in stride(from: 0, to: 28, by: 7) {
            let byte = try byte()
            value |= Int(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        throw MalformedPacket(reason: "a length has more than four bytes")
    }

    mutating func take(_ count: Int) throws(MalformedPacket) -> UnsafeBufferPointer<UInt8> {
        guard count <= bytes.count - index else { throw MalformedPacket(reason: "a packet ends within a field") }
        defer { index += count }
        return UnsafeBufferPointer(rebasing: bytes[index..<index + count])
    }

    mutating func binary() throws(MalformedPacket) -> UnsafeBufferPointer<UInt8> { try take(Int(try uint16())) }

    /// Reads a text and repairs invalid UTF-8: the broker has checked the text.
    mutating func text() throws(MalformedPacket) -> String { String(decoding: try binary(), as: UTF8.self) }

    /// Returns all remaining bytes.
    mutating func rest() -> UnsafeBufferPointer<UInt8> {
        defer { index = bytes.count }
        return UnsafeBufferPointer(rebasing: bytes[index...])
    }
}

/// Writes the fields of packets (MQTT 5, section 1.5). Texts and binary data have at most 65,535 bytes.
extension [UInt8] {
    mutating func append(uint16 value: UInt16) {
        append(UInt8(value >> 8))
        append(UInt8(truncatingIfNeeded: value))
    }

    mutating func append(uint32 value: UInt32) {
        append(uint16: UInt16(value >> 16))
        append(uint16: UInt16(truncatingIfNeeded: value))
    }

    mutating func append(variableInteger value: Int) {
        var rest = value
        repeat {
            append(UInt8(rest & 0x7F) | (rest > 0x7F ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
    }

    mutating func append(text: String) {
        append(uint16: UInt16(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    mutating func append(binary: [UInt8]) {
        append(uint16: UInt16(binary.count))
        append(contentsOf: binary)
    }
}

/// Returns the number of bytes of a variable byte integer.
func variableIntegerLength(_ value: Int) -> Int {
    switch value {
    case ..<0x80: 1
    case ..<0x4000: 2
    case ..<0x20_0000: 3
    default: 4
    }
}

/// The longest remaining length of a packet (MQTT 5, section 2.1.4).
let longestRemainder = 0xFFF_FFFF
