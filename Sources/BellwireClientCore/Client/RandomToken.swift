/// Returns 128 random bits in hex: unique without coordination.
package func randomToken() -> String {
    var generator = SystemRandomNumberGenerator()
    return hex(generator.next() as UInt64) + hex(generator.next() as UInt64)
}

private func hex(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}

/// The waits between attempts to reach the broker: 0.25 s, doubled up to 8 s, shortened at random by up to a half, so
/// that the devices of a broker that restarts do not all connect at once.
struct ReconnectBackoff {
    private static let first: Int64 = 250
    private static let longest: Int64 = 8000
    private var next = ReconnectBackoff.first

    /// Returns the next wait in milliseconds.
    mutating func delay() -> Int64 {
        defer { next = min(next * 2, Self.longest) }
        return Int64.random(in: next / 2...next)
    }

    mutating func reset() { next = Self.first }
}
