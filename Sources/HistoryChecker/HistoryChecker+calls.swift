import SignalingProtocol

/// A period in which a user was certainly in a particular advanced call.
struct ActiveSpan {
    let callID: CallID
    /// The time at which the user entered the call.
    let from: Int64
    /// The time of the latest revision that still showed the user in the call.
    var to: Int64
}

extension HistoryChecker {
    mutating func mention(_ callID: CallID, _ entry: HistoryEntry, creating: Bool) {
        if calls[callID] == nil {
            guard creating else { return }
            calls[callID] = CallHistory(callID: callID)
        }
        calls[callID]?.mention(entry)
    }

    /// Records that a device saw a call. `time` is nil when the message does not say when the revision was made.
    mutating func see(_ call: CallSnapshot, time: Int64?, by device: DeviceAddress, _ entry: HistoryEntry) {
        mention(call.callID, entry, creating: true)
        // Without a time, the revision is at least as new as its newest member. A member that moves to another device
        // keeps its `updatedAt`.
        let made = time ?? call.members.map(\.updatedAt).max() ?? call.createdAt
        let view = CallHistory.View(call: call, time: made, isTimeKnown: time != nil, seenAt: entry.at, seenBy: device)
        guard let (findings, isNew) = calls[call.callID]?.add(view) else { return }
        for finding in findings {
            let of: DeviceAddress? = finding.kind == .twoFaces ? nil : device
            report(finding.kind, call.callID, of, finding.what, entry: entry)
        }
        guard isNew, let history = calls[call.callID] else { return }
        for fact in history.facts where fact.revision <= call.revision { hold(fact, against: view, history) }
        checkTimers(of: view, history)
        checkCallerLost(view, history)
        if time != nil { noteActive(call, at: made) }
    }

    // MARK: Live advanced calls of a user

    private mutating func noteActive(_ call: CallSnapshot, at time: Int64) {
        guard call.mode == .advanced, call.state != .ended else { return }
        for member in call.members where member.state == .accepted {
            noteActive(member.userID, ActiveSpan(callID: call.callID, from: member.updatedAt, to: time))
        }
    }

    private mutating func noteActive(_ user: UserID, _ span: ActiveSpan) {
        var spans = activeCalls[user] ?? []
        if let index = spans.firstIndex(where: { $0.callID == span.callID && $0.from == span.from }) {
            spans[index].to = max(spans[index].to, span.to)
        } else {
            spans.append(span)
        }
        activeCalls[user] = spans
        for other in spans where other.callID != span.callID {
            let overlap = min(other.to, span.to) - max(other.from, span.from)
            guard overlap > tolerances.clock else { continue }
            report(
                .twoActiveCalls, span.callID, nil,
                "\(user) was also in call \(other.callID) from \(clock(other.from)) to \(clock(other.to)) at least")
        }
    }

    mutating func forgetActiveCalls() {
        for (user, spans) in activeCalls {
            let kept = spans.filter { $0.to + Bounds.overFor >= now }
            activeCalls[user] = kept.isEmpty ? nil : kept
        }
    }

    // MARK: Glare

    /// While a call that Bob made rings at Alice and at nobody else, Alice's invite of Bob with `glare: merge` must not
    /// make a second call.
    mutating func checkGlare(of call: CallHistory) {
        guard let made = call.latest?.call, let (_, invite) = call.invite, invite.glare == .merge,
            invite.invitees.count == 1, made.endReason != .cancelled || made.revision > 1
        else { return }
        for other in calls.values.sorted(by: { $0.callID < $1.callID }) {
            guard let theirs = other.latest?.call, theirs.inviter == invite.invitees[0],
                theirs.callID != made.callID, theirs.members.count == 2,
                theirs.members[1].userID == made.inviter,
                // An invitee who answered and was later added again did not ring all the time.
                let ringing = other.views.prefix(while: { $0.call.members[1].state.isPending }).last
            else { continue }
            guard theirs.createdAt + tolerances.clock < made.createdAt,
                made.createdAt + tolerances.clock < ringing.time
            else { continue }
            report(
                .glareNotMerged, made.callID, nil,
                "\(made.inviter) was being rung by \(theirs.inviter) in call \(theirs.callID) all the time")
        }
    }

    // MARK: Caller lost

    /// Checks that the inviter of a call with the end reason `callerLost` did lose its connection.
    private mutating func checkCallerLost(_ view: CallHistory.View, _ history: CallHistory) {
        let call = view.call
        guard call.endReason == .callerLost, let device = call.members.first?.device else { return }
        let inviter = DeviceAddress(userID: call.inviter, deviceID: device)
        guard let departures = devices[inviter]?.departures, let endedAt = call.endedAt, remembers(call.createdAt),
            !departures.contains(where: { $0 <= endedAt + tolerances.clock })
        else { return }
        report(.firedEarly, call.callID, inviter, "the call ended as callerLost, but the inviter never disconnected")
    }
}
