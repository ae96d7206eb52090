internal import Foundation
internal import Synchronization
internal import Tokens

/// When the token ends that the app gave last: a broker does not say why it refuses one.
package final class TokenWatch: Sendable {
    package typealias Provider = @Sendable (_ userID: String) async throws -> String

    /// In milliseconds since the Unix epoch; nil of what cannot be read.
    private let end = Mutex<Int64?>(nil)

    package init() {}

    /// The token that counts from now on; nil for none.
    package func note(_ token: String?) {
        let end = token.flatMap { try? Token(unverified: $0).expiresAt }
        self.end.withLock { $0 = end }
    }

    /// The provider, whose tokens are looked at.
    package func watched(_ provider: @escaping Provider) -> Provider {
        { [self] userID in
            let token = try await provider(userID)
            note(token)
            return token
        }
    }

    /// By this device's clock.
    package var hasEnded: Bool {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return end.withLock { $0.map { $0 <= now } ?? false }
    }
}
