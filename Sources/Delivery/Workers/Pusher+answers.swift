import CallCore
import HTTPSending
import SignalingProtocol

/// The responses of providers, and their consequences.
extension Pusher {
    func answered(_ answer: HTTPAnswer) {
        if providers.tokenAnswered(answer, now: storeTime) != nil {
            for callID in waitingForToken { held[callID]?.isHinted = true }
            waitingForToken = []
            return
        }
        guard let attempt = attempts.removeValue(forKey: answer.id) else { return }
        let (call, id) = (attempt.call, attempt.due.id)
        let verdict = providers.verdict(of: answer, for: attempt.push, now: storeTime, wall: wall())
        call.pending[id]?.step = .noted
        call.pending[id]?.slot = nil
        // If this worker does not hold the call any more, another worker continues with it.
        call.isHinted = true
        take(verdict, answer, id, attempt.due.registration, call)
        release(attempt.provider)
    }

    private func take(
        _ verdict: PushVerdict, _ answer: HTTPAnswer, _ id: PushID, _ registration: PushRegistration, _ call: LeasedCall
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
            // A new registration of the device counts as another registration, and is rung.
            call.gone.append(registration)
            call.note(id, nil)
            end(id, of: call)
        case .refused:
            tell(.refused)
            call.note(id, .over)
            end(id, of: call)
        case .again(let after):
            tell(.failed)
            if answer.mayHaveArrived { call.pending[id]?.mayHaveArrived = true }
            failed(id, of: call, after)
        case .newToken:
            tell(.failed)
            call.pending[id]?.hasNewToken = true
        case .notHandedOver:
            // The request has not left, so this is no attempt. A new connection may take longer than a reading stays
            // fresh.
            let times = (call.pending[id]?.givenBack ?? 0) + 1
            call.pending[id]?.givenBack = times
            if times > 3 { call.pending[id]?.notBefore = now + PushBounds.freshness }
        }
    }

    /// Schedules the next attempt, unless the push would then be over.
    func failed(_ id: PushID, of call: LeasedCall, _ after: Milliseconds?) {
        guard var pending = call.pending[id] else { return }
        pending.failures += 1
        let delay = max(
            after ?? PendingPush.delay(afterFailures: pending.failures), PendingPush.delay(afterFailures: 1))
        if storeTime + delay < pending.expiresAt {
            pending.notBefore = now + delay
            call.pending[id] = pending
        } else {
            tell(call, id, .late)
            // A device that may have been rung must be told when the ringing is over.
            call.note(id, pending.mayHaveArrived ? .sent : .over)
            end(id, of: call)
        }
    }

    func end(_ id: PushID, of call: LeasedCall) {
        if let slot = call.pending.removeValue(forKey: id)?.slot { release(slot) }
    }

    /// Ends the pushes that are not under way. Pushes under way end by themselves, and occupy their slots until
    /// then.
    func giveUpPending(of call: LeasedCall) {
        for id in call.pending.filter({ !$0.value.isUnderWay }).keys { end(id, of: call) }
    }

    // MARK: Telling

    func tell(
        _ call: LeasedCall, _ id: PushID, _ outcome: PushOutcome, status: Int? = nil, reason: String? = nil,
        took: Int64? = nil
    ) {
        counts.outcomes[PushCounts.Label(id.key.platform, id.kind, outcome), default: 0] += 1
        var step = PushStep(device: id.key.device, platform: id.key.platform, kind: id.kind, outcome: outcome)
        // The server of a Web Push endpoint is a stranger's, and could report anything about itself and about this
        // network.
        if id.key.platform != .webPush {
            step.status = status
            step.reason = reason
            step.took = took
        }
        traces.add(step, of: call.callID, at: storeTime)
        if outcome == .refused || outcome == .failed, now >= nextNews[step.platform, default: .min] {
            nextNews[step.platform] = now + PushNews.pause
            onNews(PushNews(platform: step.platform, outcome: outcome, status: step.status, reason: step.reason))
        }
    }
}

extension HTTPAnswer {
    /// Whether the provider may have received the push. A provider that answers 429 or 503 has not accepted the push.
    fileprivate var mayHaveArrived: Bool {
        switch outcome {
        case .answered(let response): response.status != 429 && response.status != 503
        case .failed(_, let wasHandedOver): wasHandedOver
        case .notTried, .notHandedOver: false
        }
    }
}
