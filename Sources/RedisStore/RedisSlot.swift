/// A hash slot of Redis Cluster. Each slot has one master.
struct RedisSlot: Hashable {
    static let count = 16_384

    let number: Int

    /// The slot of a key: a checksum of the part between the first `{` and the next `}`, or of the whole key if that
    /// part is empty or missing (the specification of Redis Cluster, "Hash tags").
    init(ofKey key: some RandomAccessCollection<UInt8>) {
        guard let open = key.firstIndex(of: UInt8(ascii: "{")) else {
            number = Self.checksum(key) % Self.count
            return
        }
        let rest = key[key.index(after: open)...]
        guard let close = rest.firstIndex(of: UInt8(ascii: "}")), close != rest.startIndex else {
            number = Self.checksum(key) % Self.count
            return
        }
        number = Self.checksum(rest[..<close]) % Self.count
    }

    init?(_ number: Int64) {
        guard (0..<Int64(Self.count)).contains(number) else { return nil }
        self.number = Int(number)
    }

    /// CRC-16 with the polynomial 0x1021 and the start value 0 (XMODEM).
    private static func checksum(_ bytes: some Sequence<UInt8>) -> Int {
        var checksum: UInt16 = 0
        for byte in bytes { checksum = checksum << 8 ^ table[Int(UInt8(checksum >> 8) ^ byte)] }
        return Int(checksum)
    }

    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { value, _ in value & 0x8000 == 0 ? value << 1 : value << 1 ^ 0x1021 }
    }
}
