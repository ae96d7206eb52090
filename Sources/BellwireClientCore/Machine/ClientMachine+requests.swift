import SignalingProtocol

/// Requests (docs/protocol.md, section 2): resent under the same id until the response, singly for each call, within a
/// time limit. A request that begins a call waits for the answers to requests that leave another call
/// (`PendingRequest.waits`).
extension ClientMachine {
    /// Sends a request of the app. Its id must be new; `succeed`, `answer` or `fail` follows exactly once. `within` is
    /// the time limit in milliseconds, at most `requestTimeout`; nil means `requestTimeout`. `ordered` asks for a peer
    /// message that the recipient's app gets in order: the machine sets its `seq` and `stream`.
    package mutating func send(
        _ request: Request, within: Int64? = nil, ordered: Bool = false, now: Int64
    ) -> [Action] {
        guard pending.count < configuration.requests else {
            return [.fail(request.id, SignalingError(.tooManyRequests, "\(pending.count) requests are unanswered"))]
        }
        let limit = min(within ?? .max, configuration.requestTimeout)
        let entry = PendingRequest(
            request: request, limit: limit, deadline: now + limit, stage: .queued, isUnplaced: ordered)
        guard mayBegin(entry) else {
            let message = "this device is in \(configuration.knownCalls) calls"
            return [.fail(request.id, SignalingError(.tooManyRequests, message))]
        }
        adopt(request, now: now)
        follow(request, isUnplaced: ordered, now: now)
        let ahead = pending.count { $0.changesState && entry.changesState && $0.isOfCall(of: entry) }
        guard ahead <= configuration.queuedPerCall else {
            let message = "\(ahead) requests of this call are unanswered"
            return [.fail(request.id, SignalingError(.tooManyRequests, message))]
        }
        pending.append(entry)
        return mayLeave(at: pending.count - 1) ? start(at: pending.count - 1, now: now) : []
    }

    /// Whether a waiting request may leave: no earlier request holds this request back, and the stream to its recipient
    /// has room.
    private func mayLeave(at index: Int) -> Bool {
        !pending[..<index].contains { pending[index].waits(for: $0) } && hasPlace(at: index)
    }

    private mutating func start(at index: Int, now: Int64) -> [Action] {
        guard case .subscribed = link else {
            // `resendAll` sends the request as soon as its response can arrive.
            pending[index].stage = .sending(sends: 0, nextSend: now)
            return []
        }
        pending[index].stage = .sending(sends: 1, nextSend: now + Backoff.resends.wait(after: 1))
        takePlace(at: index)
        awaitsResponse(now: now)
        return [.publish(.request(pending[index].request))]
    }

    /// Sends all unanswered requests at once, on a new connection.
    mutating func resendAll(now: Int64) -> [Action] {
        pending.indices.flatMap { index -> [Action] in
            guard pending[index].nextSend != nil else { return [] }
            guard hasPlace(at: index) else {
                pending[index].stage = .queued
                return []
            }
            return start(at: index, now: now)
        }
    }

    mutating func requestsDue(now: Int64) -> [Action] {
        var actions: [Action] = []
        // From last to first: a request that fails must not release a request that fails at the same time.
        for entry in pending.reversed() where entry.deadline <= now {
            actions += completed(entry.request.id, .failure(entry.refusal ?? noResponse(to: entry)), now: now)
        }
        guard case .subscribed = link else { return actions }
        for index in pending.indices {
            guard case .sending(let sends, let nextSend) = pending[index].stage, nextSend <= now else { continue }
            pending[index].stage = .sending(sends: sends + 1, nextSend: now + Backoff.resends.wait(after: sends + 1))
            awaitsResponse(now: now)
            actions.append(.publish(.request(pending[index].request)))
        }
        return actions
    }

    /// Returns for how many seconds a broker may keep a message of this device: until the app is told that the request
    /// has failed, at least a second. A broker may keep any other message for `requestTimeout`.
    package func expirySeconds(of message: UpMessage, now: Int64) -> UInt32 {
        var left = configuration.requestTimeout
        if case .request(let request) = message, let entry = pending.first(where: { $0.request.id == request.id }) {
            left = entry.deadline - now
        }
        return UInt32(clamping: max(1, (left + 999) / 1_000))
    }

    private func noResponse(to entry: PendingRequest) -> SignalingError {
        let isHeld = entry.stage == .queued
        let cause =
            link == .offline
            ? offlineReason
            : isHeld ? "it waited for the answer to an earlier request" : "the service did not answer"
        return SignalingError(.noResponse, "no response within \(entry.limit) ms: \(cause)")
    }

    mutating func received(_ response: Response, now: Int64) -> [Action] {
        let entry = pending.first { $0.request.id == response.id }
        switch response.outcome {
        case .success(let success):
            let news = learned(success, now: now)
            guard let entry else { return news }
            return completed(entry.request.id, .success(success), now: now) + news
        case .answer(let answer):
            guard let entry else { return answeredAgain(response.id, answer, now: now) }
            return completed(entry.request.id, .answer(answer), now: now) + learned(answer, to: entry.request, now: now)
        case .failure(let error):
            guard let entry else { return [] }
            return refused(entry, error, now: now)
        }
    }

    private mutating func refused(_ entry: PendingRequest, _ error: SignalingError, now: Int64) -> [Action] {
        let id = entry.request.id
        guard let index = pending.firstIndex(where: { $0.request.id == id }) else { return [] }
        if error.code == .unavailable || error.code == .rateLimited {
            guard case .sending(let sends, _) = entry.stage else { return [] }
            let wait = max(
                Backoff.resends.wait(after: sends), min(Int64(error.retryAfter ?? 0), configuration.requestTimeout))
            pending[index].refusal = error
            pending[index].stage = .sending(sends: sends, nextSend: now + wait)
            return []
        }
        guard error.code == .callNotFound, let callID = entry.callID else {
            return completed(id, .failure(error), now: now)
        }
        guard entry.isCancel else {
            return completed(id, .failure(error), now: now) + notFound(callID, now: now)
        }
        if pending[..<index].contains(where: { $0.isInvite && $0.callID == callID }) {
            pending[index].refusal = error
            pending[index].stage = .awaitingInvite
            return []
        }
        if let call = knownCall(callID)?.snapshot, call.state == .ended {
            // The response to the invite came first: the cancel has done its work.
            return completed(id, .success(.init(call: call, time: call.endedAt ?? call.createdAt)), now: now)
        }
        return completed(id, .failure(error), now: now)
    }

    mutating func completed(
        _ id: RequestID, _ outcome: Response.Outcome, now: Int64
    ) -> [Action] {
        guard let index = pending.firstIndex(where: { $0.request.id == id }) else { return [] }
        let entry = pending.remove(at: index)
        var actions: [Action]
        switch outcome {
        case .success(let success): actions = [.succeed(id, success)]
        case .answer(let answer): actions = [.answer(id, answer)]
        case .failure(let error):
            // A message that has left and got no response may still reach its recipient.
            if error.code != .noResponse || !entry.hasLeft { unfollow(entry.request) }
            actions = [.fail(id, error)]
        }
        if entry.isInvite, let callID = entry.callID { actions += inviteCompleted(callID, outcome, now: now) }
        actions += startQueued(now: now)
        guard entry.changesState, let callID = entry.callID else { return actions }
        return actions + releaseHeld(callID, now: now)
    }

    /// Ends or resends an early cancel, now that its invite has an outcome.
    private mutating func inviteCompleted(
        _ callID: CallID, _ outcome: Response.Outcome, now: Int64
    ) -> [Action] {
        guard let index = pending.firstIndex(where: { $0.callID == callID && $0.stage == .awaitingInvite }) else {
            return []
        }
        switch outcome {
        case .success(let success) where success.call.state != .ended:
            return start(at: index, now: now)
        case .success, .answer, .failure:
            let entry = pending.remove(at: index)
            if case .success(let success) = outcome {
                return [.succeed(entry.request.id, .init(call: success.call, time: success.time))]
            }
            let error = entry.refusal ?? SignalingError(.callNotFound, "the call was not created")
            return [.fail(entry.request.id, error)]
        }
    }

    /// Starts the requests that waited for a request answered now, in the order of the app's calls.
    private mutating func startQueued(now: Int64) -> [Action] {
        var actions: [Action] = []
        for index in pending.indices where pending[index].stage == .queued && mayLeave(at: index) {
            actions += start(at: index, now: now)
        }
        return actions
    }
}

extension PendingRequest {
    /// Whether this request waits for the response to an earlier request. Two coordinators may serve two requests of a
    /// device at once: the later request would be decided on the state before the earlier one, as an invitation on the
    /// call that the user has just left.
    func waits(for earlier: PendingRequest) -> Bool {
        guard changesState, earlier.changesState else { return false }
        // A cancel may overtake its invitation: the service remembers the cancel.
        if isOfCall(of: earlier) { return !(isCancel && earlier.isInvite) }
        return beginsCall && earlier.leavesCall
    }
}
