package import BellwireClient
package import SignalingProtocol
internal import Basics

extension BellwireConfiguration {
    /// Returns the configuration of a client for this user. `token` is the token that the app passed with its login,
    /// used first; empty or nil without a token. `transport` replaces MQTT to `broker`. `tokens` notes each token that
    /// is used.
    ///
    /// - Throws: `badRequest` naming `user`, `broker`, `device` or `topicRoot`, when the text is not valid.
    package func clientConfiguration(
        userID: String, token: String? = nil, transport: (any BellwireTransport)? = nil,
        tokens: TokenWatch = TokenWatch()
    ) throws(SignalingError) -> SignalingClient.Configuration {
        var configuration = try clientConfiguration(userID, transport ?? self.transport)
        guard let topics = Topics(root: topicRoot) else {
            throw SignalingError(.badRequest, "topicRoot: \(Topics.rootForm)")
        }
        configuration.topics = topics
        configuration.log = log
        let given = token.flatMap { $0.isEmpty ? nil : $0 }
        tokens.note(given)
        configuration.token = given
        configuration.tokenProvider = provider(userID, first: given, tokens)
        return configuration
    }

    private func clientConfiguration(
        _ userID: String, _ transport: (any BellwireTransport)?
    ) throws(SignalingError) -> SignalingClient.Configuration {
        guard let transport else { return try .init(user: userID, broker: broker, device: device) }
        // `??` does not keep the error's type.
        let name: String = if let device { device } else { DeviceID.ofThisInstallation.string }
        return try .init(user: userID, device: name, transport: transport)
    }

    /// Returns a provider that gives the app's own token once, and then asks the app's provider.
    private func provider(
        _ userID: String, first token: String?, _ tokens: TokenWatch
    ) -> (@Sendable () async throws -> String)? {
        guard let tokenProvider = tokenProvider.map(tokens.watched) else { return nil }
        let first = FirstToken(token)
        return { () async throws -> String in
            if let token = first.take() { return token }
            return try await tokenProvider(userID)
        }
    }
}

/// A token that is returned once.
private final class FirstToken: Sendable {
    private let token: Mutex<String?>

    init(_ token: String?) { self.token = Mutex(token) }

    func take() -> String? {
        token.withLock { token in
            defer { token = nil }
            return token
        }
    }
}
