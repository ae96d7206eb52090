/// Points of P-256 as strangers send them.
package enum CurvePoint {
    /// Whether it is one, uncompressed (SEC 1, section 2.3.3), and not merely of its form.
    package static func isValid(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 65, bytes[0] == 4 else { return false }
        return (try? CryptographicKey(.es256, [.text("group", "P-256"), .bytes("pub", bytes)], isPrivate: false)) != nil
    }
}
