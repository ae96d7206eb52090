import Synchronization

/// Where the connection's thread gets tokens: it asks the app's provider, in a task of its own, and looks now and then.
final class TokenSource: Sendable {
    enum Answer: Equatable, Sendable {
        case token(String)
        case failure(String)
    }

    private struct State {
        var isAsking = false
        var answer: Answer?
    }

    private let provider: @Sendable () async throws -> String
    private let timeout: Duration
    private let wake: @Sendable () -> Void
    private let state = Mutex(State())

    /// `wake` ends the wait of the thread.
    init(
        _ provider: @escaping @Sendable () async throws -> String, timeout: Duration,
        wake: @escaping @Sendable () -> Void
    ) {
        self.provider = provider
        self.timeout = timeout
        self.wake = wake
    }

    /// Asks, unless it is asking already.
    func ask() {
        let isNew = state.withLock { state in
            defer { state.isAsking = true }
            return !state.isAsking
        }
        guard isNew else { return }
        let (provider, timeout) = (provider, timeout)
        Task { [weak self] in
            let answer = await Self.answer(of: provider, within: timeout)
            self?.answered(answer)
        }
    }

    /// The answer, once; nil while there is none.
    func take() -> Answer? {
        state.withLock { state in
            defer { state.answer = nil }
            return state.answer
        }
    }

    private func answered(_ answer: Answer) {
        state.withLock { state in
            state.answer = answer
            state.isAsking = false
        }
        wake()
    }

    /// A provider that never answers must not keep the client waiting for ever. One that does not heed its cancellation
    /// is left behind.
    private static func answer(
        of provider: @escaping @Sendable () async throws -> String, within timeout: Duration
    ) async -> Answer {
        let (answers, inbox) = AsyncStream.makeStream(of: Answer.self, bufferingPolicy: .bufferingOldest(1))
        let asking = Task {
            do {
                inbox.yield(.token(try await provider()))
            } catch {
                inbox.yield(.failure("\(error)"))
            }
        }
        let timer = Task {
            try await Task.sleep(for: timeout)
            inbox.yield(.failure("the token provider did not answer within \(timeout)"))
        }
        defer {
            asking.cancel()
            timer.cancel()
        }
        for await answer in answers { return answer }
        return .failure("cancelled")
    }
}
