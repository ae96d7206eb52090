import SignalingProtocol

extension HistoryChecker {
    /// A check that depends on time. The check runs with a delay, when the faults around its time are known.
    indirect enum Matter {
        /// A timer that was due at `due` and set since `since`. The timer fired at `happened`, or had not fired at
        /// `happened`.
        case timer(CallID, what: String, due: Int64, since: Int64, happened: Int64, hasFired: Bool)
        /// A phone, reachable since `reachable`, rang from `since` until `stopped` for an invitation of `revision`.
        case ringing(CallID, DeviceAddress, revision: Int, since: Int64, stopped: Int64, reachable: Int64)
        /// A copy of a request, which must be answered in time.
        case copy(RequestKey, sentAt: Int64)
        case refusal(Refusal)
        /// The outcome of a peer message, as told to the sender.
        case receipt(RequestKey, HistoryEntry)
    }

    mutating func judge(_ matter: Matter) {
        switch matter {
        case .timer(let callID, let what, let due, let since, let happened, let hasFired):
            judgeTimer(callID, what, due: due, since: since, happened: happened, hasFired: hasFired)
        case .ringing(let callID, let device, let revision, let since, let stopped, let reachable):
            judgeRinging(callID, device, revision: revision, since: since, stopped: stopped, reachable: reachable)
        case .copy(let key, let sentAt): judgeCopy(key, sentAt)
        case .refusal(let refusal): judgeRefusal(refusal)
        case .receipt(let key, let entry): judgeReceipt(key, entry)
        }
    }

    // MARK: Expiry and not-received checks

    /// Checks the timers of a call that a new view shows: timers that fired, and timers that have not fired.
    mutating func checkTimers(of view: CallHistory.View, _ history: CallHistory) {
        let call = view.call
        let since = history.previousTime(before: call.revision)
        for member in call.members {
            guard let expiresAt = member.expiresAt else { continue }
            func matter(_ what: String, _ due: Int64, _ happened: Int64, fired: Bool) {
                later(
                    .timer(
                        call.callID, what: "\(what) of \(member.userID)", due: due, since: since, happened: happened,
                        hasFired: fired))
            }
            let isFresh = member.updatedAt == view.time
            if member.state == .timeout, isFresh { matter("the expiry", expiresAt, member.updatedAt, fired: true) }
            guard call.state != .ended else { continue }
            if member.state.isPending, view.time > expiresAt {
                matter("the expiry", expiresAt, view.time, fired: false)
            }
            guard let due = notReceivedDue(member, history) else { continue }
            if member.state == .notYetReceived, isFresh {
                matter("the not-received check", due, member.updatedAt, fired: true)
                if member.updatedAt < due {
                    report(
                        .firedEarly, call.callID, nil,
                        "\(member.userID) became notYetReceived \(due - member.updatedAt) ms early")
                }
            }
            if member.state == .inviting, view.time > due {
                matter("the not-received check", due, view.time, fired: false)
            }
        }
    }

    /// Returns when the service checks whether this member's invitation was received; nil without such a check or when
    /// the time is unknown.
    private func notReceivedDue(_ member: MemberSnapshot, _ history: CallHistory) -> Int64? {
        guard let invite = history.invite?.request, invite.notReceivedCheck, let after = invite.notReceivedAfter,
            let first = history.views.first(where: { view in
                let own = view.call.member(member.userID)
                return own?.state == .inviting && own?.expiresAt == member.expiresAt
            })?.call.member(member.userID)
        else { return nil }
        return first.updatedAt + Int64(after) * 1000
    }

    private mutating func judgeTimer(
        _ callID: CallID, _ what: String, due: Int64, since: Int64, happened: Int64, hasFired: Bool
    ) {
        // The faults around a call that no device has seen for a long time are forgotten.
        guard remembers(happened) else { return }
        let start = disturbances.clear(after: due, tolerance: tolerances.disturbedTimer)
        let disturbed = start > due || disturbances.touch(since, happened) || !remembers(since)
        let allowed = disturbed ? tolerances.disturbedTimer : tolerances.timer
        let late = happened - start
        if hasFired { summary.timerFired(late: late, disturbed: disturbed) }
        guard late > allowed else { return }
        let state = hasFired ? "came" : "had not come"
        report(
            .firedLate, callID, nil,
            "\(what), due at \(clock(due)), \(state) at \(clock(happened)): \(late) ms late, \(allowed) ms allowed"
                + (disturbed ? " (disturbed)" : " (undisturbed)"))
    }

    // MARK: Ringing

    /// Records that a phone stopped ringing or disconnected. Whether the phone rang too long is checked later.
    mutating func ringingEnded(_ callID: CallID, _ device: DeviceAddress, _ ring: DeviceHistory.Ring, at moment: Int64)
    {
        guard let history = devices[device], history.isConnected, let reachable = history.onlineSince else { return }
        later(
            .ringing(
                callID, device, revision: ring.revision, since: ring.since, stopped: min(moment, ring.until),
                reachable: reachable))
    }

    private mutating func judgeRinging(
        _ callID: CallID, _ device: DeviceAddress, revision: Int, since: Int64, stopped: Int64, reachable: Int64
    ) {
        let over = calls[callID]?.first(after: revision) { call in
            call.state == .ended || !(call.member(device.userID)?.state.isPending ?? false)
        }
        guard let over else { return }
        // A user who answers silences the phone. Whether the service responds to that answer is a different check.
        let isAnswering = requests.contains { key, request in
            key.device == device && request.firstSent <= stopped && request.request.body.answers(callID)
        }
        guard !isAnswering else { return }
        let start = disturbances.clear(
            after: max(over.time, since, reachable), tolerance: tolerances.disturbedRinging)
        let isDisturbed = disturbances.touch(over.time - tolerances.ringing, stopped)
        var allowed = isDisturbed ? tolerances.disturbedRinging : tolerances.ringing
        if disturbances.hadLoss(device, min(over.time, reachable) - tolerances.aftermath, stopped) {
            allowed = 2 * tolerances.aftermath
        }
        let late = stopped - start
        summary.ringingStopped(late: late, disturbed: allowed > tolerances.ringing)
        guard late > allowed else { return }
        report(
            .rangOn, callID, device,
            "ended at \(clock(over.time)) (revision \(over.call.revision)), reachable since \(clock(reachable)), "
                + "rang until \(clock(stopped)): \(late) ms, \(allowed) ms allowed")
    }

    // MARK: Answers

    private mutating func judgeCopy(_ key: RequestKey, _ sentAt: Int64) {
        guard let request = requests[key] else { return }
        let until = sentAt + tolerances.response
        if let answeredAt = request.answers.first(where: { $0 >= sentAt && $0 <= until }) {
            let isPlain = request.copies == 1 && !disturbances.touch(sentAt - tolerances.aftermath, until)
            if isPlain { summary.slowestAnswer = max(summary.slowestAnswer, answeredAt - sentAt) }
            return
        }
        guard let device = devices[key.device], device.wasConnected(from: sentAt, to: until),
            !disturbances.touch(sentAt - tolerances.ringing, until),
            !disturbances.hadLoss(key.device, sentAt - tolerances.ringing, until)
        else { return }
        report(
            .unanswered, request.request.body.callID, key.device,
            "request \(key.id), sent at \(clock(sentAt)), had no answer within \(tolerances.response) ms, "
                + "although there was no disturbance")
    }
}

extension Request.Body {
    /// Whether the request accepts or rejects the invitation to this call.
    fileprivate func answers(_ call: CallID) -> Bool {
        switch self {
        case .accept(let accept): accept.callID == call
        case .reject(let reject): reject.callID == call
        case .invite, .cancel, .add, .join, .quit, .end, .get, .signal, .report, .trace, .media, .query, .message,
            .userUpdate,
            .userQuery, .userBlock, .userBlockList, .userSignOut, .userDelete, .pushRegister, .pushUnregister,
            .ringCheck:
            false
        }
    }
}
