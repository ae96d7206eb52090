package import SignalingProtocol
internal import Basics

/// The push tokens that an app has set, before or after its login. Clients register the tokens whenever they have
/// connected, since registrations end (docs/push.md).
package final class PushTokens: Sendable {
    private struct Token {
        let text: String
        let isProduct: Bool
    }

    private let tokens = Mutex<[PushPlatform: Token]>([:])

    package init() {}

    /// Sets the token of a platform, in place of an earlier token; an empty token removes the earlier token.
    /// `isProduct` is false for a build whose tokens are those of Apple's sandbox.
    package func set(_ platform: PushPlatform, _ token: some Sequence<UInt8>, isProduct: Bool) {
        let digits = Array("0123456789abcdef".utf8)
        let text = String(decoding: token.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
        tokens.withLock { $0[platform] = text.isEmpty ? nil : Token(text: text, isProduct: isProduct) }
    }

    package var isEmpty: Bool { tokens.withLock(\.isEmpty) }

    /// Returns the requests that register the tokens.
    package func requests(_ apps: PushApps) -> [Request.Body] {
        tokens.withLock { tokens in
            tokens.sorted { $0.key < $1.key }.map { platform, token in
                .pushRegister(
                    .init(
                        platform: platform, app: token.isProduct ? apps.product : apps.sandbox,
                        target: .token(token.text)))
            }
        }
    }
}

/// The apps of the deployment's push settings, for builds of the app store and for builds from Xcode.
package struct PushApps: Sendable, Equatable {
    package let product: AppName
    package let sandbox: AppName
}

extension BellwireConfiguration {
    /// - Throws: `badRequest` naming `pushApp` or `sandboxPushApp`, when the text is not the name of an app.
    package func pushApps() throws(SignalingError) -> PushApps {
        PushApps(
            product: try Self.app(pushApp, "pushApp"), sandbox: try Self.app(sandboxPushApp, "sandboxPushApp"))
    }

    private static func app(_ name: String, _ field: String) throws(SignalingError) -> AppName {
        guard let app = AppName(name) else {
            throw SignalingError(.badRequest, "\(field): 1 to 64 of A-Z a-z 0-9 _ -")
        }
        return app
    }
}
