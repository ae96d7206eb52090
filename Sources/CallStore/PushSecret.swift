/// The secret from which a deployment derives the keys of ring checks.
package enum PushSecret {
    private static let bytes = 32

    package static func make() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<bytes).map { _ in UInt8.random(in: 0 ... .max, using: &generator) }
    }
}
