internal import Foundation
internal import Synchronization
internal import Tokens

/// When the token ends that the app gave last: a broker does not say why it refuses one.
final class TokenWatch: Sendable {
    typealias Provider = @Sendable (_ userID: String) async throws -> String

    /// In milliseconds since the Unix epoch; nil of what cannot be read.
    private let end = Mutex<Int64?>(nil)

    /// The provider, whose tokens are looked at.
    func watched(_ provider: @escaping Provider) -> Provider {
        { [self] userID in
            let token = try await provider(userID)
            let end = try? Token(unverified: token).expiresAt
            self.end.withLock { $0 = end }
            return token
        }
    }

    /// By this device's clock.
    var hasEnded: Bool {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return end.withLock { $0.map { $0 <= now } ?? false }
    }
}
