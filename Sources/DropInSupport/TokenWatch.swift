internal import Foundation
internal import Synchronization
internal import Tokens

/// The end of the app's newest token. A broker that refuses a token gives no reason; this end shows whether the token
/// was too old.
package final class TokenWatch: Sendable {
    package typealias Provider = @Sendable (_ userID: String) async throws -> String

    /// The token's end in milliseconds since the Unix epoch; nil for a token that cannot be read.
    private let end = Mutex<Int64?>(nil)

    package init() {}

    /// Takes over the token that is used from now on; nil for no token.
    package func note(_ token: String?) {
        let end = token.flatMap { try? Token(unverified: $0).expiresAt }
        self.end.withLock { $0 = end }
    }

    /// Returns the provider, wrapped so that this watch notes each of its tokens.
    package func watched(_ provider: @escaping Provider) -> Provider {
        { [self] userID in
            let token = try await provider(userID)
            note(token)
            return token
        }
    }

    /// Whether the token has ended, by this device's clock.
    package var hasEnded: Bool {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return end.withLock { $0.map { $0 <= now } ?? false }
    }
}
