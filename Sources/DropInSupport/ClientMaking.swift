package import BellwireClient
package import SignalingProtocol
internal import Synchronization

extension BellwireConfiguration {
    /// The configuration of a client for this user. `token`: what the app gave with its login, used first; empty or nil for none.
    /// `transport`: instead of MQTT to `broker`. `tokens` looks at each token that is used.
    ///
    /// - Throws: `badRequest`, which names the word that is not of its form.
    package func clientConfiguration(
        userID: String, token: String? = nil, transport: (any Transport)? = nil, tokens: TokenWatch = TokenWatch()
    ) throws(SignalingError) -> SignalingClient.Configuration {
        var configuration = try SignalingClient.Configuration(user: userID, broker: broker, device: device)
        guard let topics = Topics(root: topicRoot) else {
            throw SignalingError(.badRequest, "topicRoot: \(Topics.rootForm)")
        }
        configuration.topics = topics
        if let transport { configuration.transport = transport }
        let given = token.flatMap { $0.isEmpty ? nil : $0 }
        tokens.note(given)
        configuration.token = given
        configuration.tokenProvider = provider(userID, first: given, tokens)
        return configuration
    }

    /// The app's own token counts until it ends or is refused; then the provider is asked.
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

/// A token that is given once.
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

extension SignalingError {
    /// The client could not reach the service, or was told to stop.
    package var isOfConnection: Bool { code == .notConnected || code == .disconnected }
}
