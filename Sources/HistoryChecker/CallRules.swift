import SignalingProtocol

/// The states and transitions of a call that section 3 of docs/protocol.md allows.
enum CallRules {
    typealias Finding = (kind: Violation.Kind, what: String)

    // MARK: Within a revision

    /// Returns the faults of a single revision. `autoEnd` is nil when the history does not contain the invite.
    static func findings(in call: CallSnapshot, autoEnd: Bool?) -> [Finding] {
        var findings: [Finding] = []
        func require(_ condition: Bool, _ what: @autoclosure () -> String) {
            if !condition { findings.append((.inconsistentCall, what())) }
        }
        require(call.members.first?.userID == call.inviter, "the inviter is not the first member")
        require(Set(call.members.map(\.userID)).count == call.members.count, "a user is a member twice")
        require((call.state == .ended) == (call.endedAt != nil), "state and endedAt contradict each other")
        require((call.state == .ended) == (call.endReason != nil), "state and endReason contradict each other")
        require((call.endReason == .hangup) == (call.endedBy != nil), "endReason and endedBy contradict each other")
        for member in call.members {
            let pending = member.state.isPending
            require(!pending || (member.expiresAt != nil && member.invitedBy != nil), "\(member.userID): no expiry")
            require(member.state != .accepted || member.device != nil, "\(member.userID) accepted on no device")
            require(member.state != .rejected || member.reason != nil, "\(member.userID) rejected without a reason")
            if member.state == .timeout, let expiresAt = member.expiresAt, member.updatedAt < expiresAt {
                let early = expiresAt - member.updatedAt
                findings.append((.firedEarly, "the invitation of \(member.userID) expired \(early) ms early"))
            }
        }
        for what in call.mode == .common ? common(call) : advanced(call, autoEnd: autoEnd) { require(false, what) }
        return findings
    }

    private static func common(_ call: CallSnapshot) -> [String] {
        let invitees = call.members.dropFirst()
        let pending = invitees.contains { $0.state.isPending }
        let accepted = invitees.contains { $0.state == .accepted }
        var wrong: [String] = []
        let state: BellwireCallState = !pending ? .ended : accepted ? .active : .ringing
        if call.state != state {
            wrong.append("the call is \(call.state.rawValue), its members make it \(state.rawValue)")
        }
        if call.state == .ended, (call.endReason == .answered) != accepted {
            wrong.append("ended as \(call.endReason?.rawValue ?? "?"), accepted: \(accepted)")
        }
        if call.members.contains(where: { $0.state == .quit }) { wrong.append("a member quit a common call") }
        return wrong
    }

    private static func advanced(_ call: CallSnapshot, autoEnd: Bool?) -> [String] {
        let pending = call.members.count { $0.state.isPending }
        let accepted = call.members.count { $0.state == .accepted }
        var wrong: [String] = []
        if call.state == .ended {
            if call.endReason != .hangup, pending > 0 { wrong.append("ended, but an invitation is pending") }
            if call.endReason == .answered { wrong.append("an advanced call does not end by its answer") }
        } else {
            if (call.state == .ringing) != (call.acceptedAt == nil) {
                wrong.append("the call is \(call.state.rawValue), acceptedAt says otherwise")
            }
            if autoEnd == true, accepted == 0 || accepted + pending < 2 {
                wrong.append("the call is live with \(accepted) accepted and \(pending) pending")
            }
        }
        return wrong
    }

    // MARK: Between two revisions

    /// Returns the faults of `later` as a successor of `earlier`. Revisions between the two may be unknown.
    static func findings(from earlier: CallSnapshot, to later: CallSnapshot) -> [Finding] {
        var findings: [Finding] = []
        if earlier.state == .ended {
            findings.append((.finalStateChanged, "revision \(later.revision) came after the end"))
        }
        if earlier.state == .active, later.state == .ringing {
            findings.append((.illegalTransition, "the call went from active back to ringing"))
        }
        if let what = changedConstant(earlier, later) { findings.append((.disorder, what)) }
        let steps = later.revision - earlier.revision
        for member in later.members {
            guard let before = earlier.member(member.userID) else {
                if later.mode == .common || !isReachable(nil, member.state, steps: steps, later.mode) {
                    findings.append((.illegalTransition, "\(member.userID) came in as \(member.state.rawValue)"))
                }
                continue
            }
            if let finding = finding(before, member, steps: steps, later.mode) { findings.append(finding) }
        }
        return findings
    }

    private static func changedConstant(_ earlier: CallSnapshot, _ later: CallSnapshot) -> String? {
        if earlier.mode != later.mode || earlier.inviter != later.inviter || earlier.createdAt != later.createdAt
            || earlier.timeout != later.timeout || earlier.media != later.media
            || earlier.extendedData != later.extendedData
        {
            return "a property changed that is fixed for the life of a call"
        }
        if let acceptedAt = earlier.acceptedAt, later.acceptedAt != acceptedAt { return "acceptedAt changed" }
        if !later.members.map(\.userID).starts(with: earlier.members.map(\.userID)) {
            return "members of revision \(earlier.revision) are missing at revision \(later.revision)"
        }
        return nil
    }

    private static func finding(
        _ before: MemberSnapshot, _ after: MemberSnapshot, steps: Int, _ mode: CallMode
    ) -> Finding? {
        let user = after.userID
        if after.updatedAt < before.updatedAt { return (.disorder, "\(user) was last changed earlier than before") }
        if before.state == after.state {
            if mode == .common, before != after {
                return (.illegalTransition, "\(user) stayed \(after.state.rawValue), but is not the same")
            }
            // Between the two revisions the member may have left the state and entered the state again. `call.end` may
            // write its reason beside `accepted`.
            if before.updatedAt != after.updatedAt, steps < 2, after.state != .accepted {
                return (.illegalTransition, "\(user) became \(after.state.rawValue) again within one revision")
            }
            return nil
        }
        guard isReachable(before.state, after.state, steps: steps, mode) else {
            let states = "\(before.state.rawValue) to \(after.state.rawValue)"
            return (.illegalTransition, "\(user) went from \(states) within \(steps) revisions")
        }
        return nil
    }

    /// Whether a member can get from state `from` to state `to` in at most `steps` revisions. Nil stands for a user who
    /// is not yet a member.
    static func isReachable(_ from: MemberState?, _ to: MemberState, steps: Int, _ mode: CallMode) -> Bool {
        var reached: Set<MemberState?> = [from]
        for _ in 0..<min(steps, MemberState.allCases.count) {
            if reached.contains(to) { return true }
            for state in reached { reached.formUnion(next(state, mode)) }
        }
        return reached.contains(to)
    }

    private static func next(_ state: MemberState?, _ mode: CallMode) -> [MemberState] {
        switch state {
        // A new call can have members who are rejected as busy or were cancelled early. Later, users become members by
        // `call.add` or `call.join`.
        case nil: [.inviting, .accepted, .rejected, .cancelled]
        case .inviting: [.notYetReceived, .received, .accepted, .rejected, .cancelled, .timeout]
        case .notYetReceived: [.received, .accepted, .rejected, .cancelled, .timeout]
        case .received: [.accepted, .rejected, .cancelled, .timeout]
        case .accepted: mode == .advanced ? [.quit] : []
        case .rejected, .cancelled, .timeout, .quit: mode == .advanced ? [.inviting, .accepted] : []
        }
    }
}
