internal import Basics
internal import BellwireClient

/// The end of the app's newest token. A broker that refuses a token gives no reason; this end shows whether the token
/// was too old.
package final class TokenWatch: Sendable {
    package typealias Provider = @Sendable (_ userID: String) async throws -> String

    /// The token's end in milliseconds since the Unix epoch; nil for a token that cannot be read.
    private let end = Mutex<Int64?>(nil)

    package init() {}

    /// Notes the end of the token that is used from now on; nil means that there is no token.
    package func note(_ token: String?) {
        let end = token.flatMap(TokenEnd.of)
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
        let now = WallClock.now
        return end.withLock { $0.map { $0 <= now } ?? false }
    }
}
