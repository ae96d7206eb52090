/// Asks the app's provider for tokens. A provider that never answers does not keep the client waiting, and a provider
/// that ignores its cancellation is left behind.
struct TokenSource: Sendable {
    enum Answer: Equatable, Sendable {
        case token(String)
        /// The failure in words, and the same without what the app's error says, which may quote a secret.
        case failure(String, kind: String)

        static func failure(_ words: String) -> Answer { .failure(words, kind: words) }
    }

    let provider: @Sendable () async throws -> String
    let timeout: Duration

    /// Asks for a token. `begun` gets a function that gives up the wait.
    func ask(begun: (@escaping @Sendable () -> Void) -> Void = { _ in }) async -> Answer {
        let (answers, inbox) = AsyncStream.makeStream(of: Answer.self, bufferingPolicy: .bufferingOldest(1))
        let (provider, timeout) = (provider, timeout)
        let asking = Task {
            do {
                inbox.yield(.token(try await provider()))
            } catch {
                inbox.yield(.failure("\(error)", kind: "\(type(of: error))"))
            }
        }
        let timer = Task {
            try await Task.sleep(for: timeout)
            inbox.yield(.failure("the token provider did not answer within \(timeout)"))
        }
        begun { inbox.yield(.failure("the client no longer waits for a token")) }
        defer {
            asking.cancel()
            timer.cancel()
        }
        for await answer in answers { return answer }
        return .failure("cancelled")
    }
}
