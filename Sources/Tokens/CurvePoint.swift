/// Points of P-256 from other parties.
package enum CurvePoint {
    /// Whether the bytes are an uncompressed point (SEC 1, section 2.3.3) that is on the curve.
    package static func isValid(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 65, bytes[0] == 4 else { return false }
        return (try? CryptographicKey(.es256, [.text("group", "P-256"), .bytes("pub", bytes)], isPrivate: false)) != nil
    }
}
