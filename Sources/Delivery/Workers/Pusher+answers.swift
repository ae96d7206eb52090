import CallCore
import HTTPSending
import SignalingProtocol

/// What providers say, and what follows.
extension Pusher {
    func answered(_ answer: HTTPAnswer) {
        if providers.tokenAnswered(answer, now: storeTime) != nil {
            for callID in waitingForToken { held[callID]?.isHinted = true }
            waitingForToken = []
            return
        }
        guard let flight = flights.removeValue(forKey: answer.id) else { return }
        let (call, id) = (flight.call, flight.due.id)
        let verdict = providers.verdict(of: answer, for: flight.push, now: storeTime, wall: wall())
        call.attempts[id]?.isUnderWay = false
        call.attempts[id]?.slot = nil
        // Of a call that is held no more, somebody else goes on.
        call.isHinted = true
        take(verdict, answer, id, flight.due.registration, call)
        release(flight.provider)
    }

    private func take(
        _ verdict: PushVerdict, _ answer: HTTPAnswer, _ id: PushID, _ registration: PushRegistration, _ call: HeldCall
    ) {
        func tell(_ outcome: PushOutcome) {
            self.tell(call, id, outcome, status: verdict.status, reason: verdict.reason, took: answer.took)
        }
        switch verdict.step {
        case .sent:
            tell(.sent)
            call.note(id, .sent)
            end(id, of: call)
        case .gone:
            tell(.gone)
            // One that is made anew is another one, and is rung.
            call.gone.append(registration)
            call.note(id, nil)
            end(id, of: call)
        case .refused:
            tell(.refused)
            call.note(id, .over)
            end(id, of: call)
        case .again(let after):
            tell(.failed)
            if answer.mayHaveArrived { call.attempts[id]?.mayHaveArrived = true }
            failed(id, of: call, after)
        case .newToken:
            tell(.failed)
            call.attempts[id]?.hasNewToken = true
        case .notHandedOver:
            // That is no attempt. A connection may take longer than that.
            let times = (call.attempts[id]?.givenBack ?? 0) + 1
            call.attempts[id]?.givenBack = times
            if times > 3 { call.attempts[id]?.notBefore = now + Bounds.freshness }
        }
    }

    /// It is tried again, unless its time would be over.
    func failed(_ id: PushID, of call: HeldCall, _ after: Milliseconds?) {
        guard var attempt = call.attempts[id] else { return }
        attempt.failures += 1
        let delay = max(
            after ?? PushAttempt.delay(afterFailures: attempt.failures), PushAttempt.delay(afterFailures: 1))
        if storeTime + delay < attempt.expiresAt {
            attempt.notBefore = now + delay
            call.attempts[id] = attempt
        } else {
            tell(call, id, .late)
            // Who may have been rung is to be told when that is over.
            call.note(id, attempt.mayHaveArrived ? .sent : .over)
            end(id, of: call)
        }
    }

    func end(_ id: PushID, of call: HeldCall) {
        if let slot = call.attempts.removeValue(forKey: id)?.slot { release(slot) }
    }

    /// Nothing more is to be sent. What is under way comes to its own end, and has its slot until then.
    func giveUpAttempts(of call: HeldCall) {
        for id in call.attempts.filter({ !$0.value.isUnderWay }).keys { end(id, of: call) }
    }

    // MARK: Telling

    func tell(
        _ call: HeldCall, _ id: PushID, _ outcome: PushOutcome, status: Int? = nil, reason: String? = nil,
        took: Int64? = nil
    ) {
        counts.outcomes[PushCounts.Label(id.key.platform, id.kind, outcome), default: 0] += 1
        var step = PushStep(device: id.key.device, platform: id.key.platform, kind: id.kind, outcome: outcome)
        // A stranger's server would tell of itself, and of the network here, whatever it likes.
        if id.key.platform != .webPush {
            step.status = status
            step.reason = reason
            step.took = took
        }
        traces.add(step, of: call.callID, at: storeTime)
    }
}

extension HTTPAnswer {
    /// Whoever answers that it can take nothing now has taken nothing.
    fileprivate var mayHaveArrived: Bool {
        switch outcome {
        case .answered(let response): response.status != 429 && response.status != 503
        case .failed(_, let wasHandedOver): wasHandedOver
        case .notTried, .notHandedOver: false
        }
    }
}
