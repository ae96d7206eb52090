import SignalingProtocol
import Basics

/// Makes requests of one client, and waits for their outcomes.
struct RequestMaker: Sendable {
    let driver: ClientDriver

    static let unexpected = SignalingError(.internal, "the response is not one to this request")

    /// Sends a request about a call, and returns its response.
    func perform(_ body: Request.Body) async throws(SignalingError) -> Response.Success {
        switch await outcome(body) {
        case .success(let success): return success
        case .answer: throw Self.unexpected
        case .failure(let error): throw error
        }
    }

    /// Sends any other request, and returns its response.
    func ask(
        _ body: Request.Body, within: Duration? = nil, isOrdered: Bool = false
    ) async throws(SignalingError) -> Answer {
        switch await outcome(body, within: within, isOrdered: isOrdered) {
        case .success: throw Self.unexpected
        case .answer(let answer): return answer
        case .failure(let error): throw error
        }
    }

    private func outcome(
        _ body: Request.Body, within: Duration? = nil, isOrdered: Bool = false
    ) async -> Response.Outcome {
        let request = Request(id: makeID(), body: body)
        return await withCheckedContinuation { waiter in
            driver.send(request, within: within, isOrdered: isOrdered) { waiter.resume(returning: $0) }
        }
    }

    func makeID() -> RequestID {
        let number = driver.requestCount.withLock { count in
            count += 1
            return count
        }
        guard let id = RequestID("\(driver.requestPrefix)-\(number)") else {
            preconditionFailure("hex and digits are an id")
        }
        return id
    }
}
