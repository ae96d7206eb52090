import SignalingProtocol
import Basics

/// The end of a token's validity. A broker that refuses a token gives no reason: this end shows whether the token was
/// too old.
package enum TokenEnd {
    /// Returns the end in the token's claims, in milliseconds since the Unix epoch, without any verification; nil for a
    /// token that cannot be read or that has no end.
    package static func of(_ token: String) -> Int64? {
        let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSONParser.parse(bytes))?.object?["exp"]?.numericDate
    }

    /// Whether the token has ended, by this device's clock.
    package static func hasPassed(_ token: String) -> Bool { of(token).map { $0 <= WallClock.now } ?? false }
}
