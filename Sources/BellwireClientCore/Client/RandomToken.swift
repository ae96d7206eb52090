/// Returns 128 random bits in hex: unique without coordination.
package func randomToken() -> String {
    var generator = SystemRandomNumberGenerator()
    return hex(generator.next() as UInt64) + hex(generator.next() as UInt64)
}

private func hex(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
