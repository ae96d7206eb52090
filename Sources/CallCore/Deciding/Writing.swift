import SignalingProtocol

/// The writes of a decision, in their order: the alias of a merge, and then the record.
package struct Writing {
    let settings: ServiceSettings
    let now: Milliseconds
    /// All webhook endpoints.
    let endpoints: [KeptEndpoint]
    /// Whether commits wait for replicas. An unchanged record of which a response tells is then written again, so that
    /// the response waits too: the record may be another coordinator's write that no replica has yet.
    let isForReplicas: Bool

    package init(
        settings: ServiceSettings, now: Milliseconds, endpoints: [KeptEndpoint], isForReplicas: Bool = false
    ) {
        self.settings = settings
        self.now = now
        self.endpoints = endpoints
        self.isForReplicas = isForReplicas
    }

    /// Returns a commit that is valid only for a limited time after the decision.
    func commit(
        _ id: RecordID, record: Record, expected: Int64, deadline: Milliseconds?, expiresAt: Milliseconds?
    ) -> Commit {
        var commit = Commit(id, record: record, expected: expected, deadline: deadline, expiresAt: expiresAt)
        commit.validity = (now - ServiceBounds.clockDifference)...(now + ServiceBounds.decisionLife)
        return commit
    }

    /// Returns the write of the record; nil when at most notes are to be written.
    package func commit(of decision: borrowing Decision, callID: CallID) -> Commit? {
        if let record = decision.subject.record {
            return commit(
                .call(callID), record: record, expected: decision.subject.version, deadline: nil,
                expiresAt: now + settings.cancelMemory)
        }
        guard let machine = decision.subject.machine else { return nil }
        // Each access to a property of `decision` would copy the call, so `before` and `call` are read only once.
        let before = decision.subject.before
        let call = machine.call
        guard call != before || decision.asksForPushes || isForReplicas && decision.tellsOfChange else { return nil }
        var commit = commit(
            .call(call.callID), record: .call(call), expected: decision.subject.version, deadline: machine.nextDeadline,
            expiresAt: call.endedAt.map { $0 + settings.historyRetention })
        commit.notes = decision.subject.notes
        commit.expectedHolders = decision.expectedHolders
        setClaims(&commit, before: before, after: call)
        commit.newMembers = call.participants.filter { !(before?.hasMember($0) ?? false) }
        commit.formerMembers = before?.participants.filter { !call.hasMember($0) } ?? []
        setOutstanding(&commit, before: before, after: call)
        commit.hasJustEnded = !call.isLive && before?.isLive ?? true
        commit.liveChange = LiveChange(from: before, to: call)
        if decision.isVisiblyChanged { commit.outboxEntries = outboxEntries(of: machine, since: before) }
        commit.pushes = decision.asksForPushes || call.mayNeedPushes(since: before?.revision ?? 0)
        return commit
    }

    /// Returns the outbox entries for these revisions. A worker derives the webhook events from the call at each
    /// revision, or the members who have left the call's room.
    private func outboxEntries(of machine: CallMachine, since before: Call?) -> OutboxEntries? {
        guard !endpoints.isEmpty else { return nil }
        var names = endpoints.filter(\.wantsCalls).map(\.name)
        if machine.call.leavesRoom(since: before) {
            names += endpoints.filter { $0.hasRoom(of: machine.call) }.map(\.name)
        }
        guard !names.isEmpty else { return nil }
        return OutboxEntries(
            to: names,
            revisions: (machine.passed + [machine.call]).map {
                OutboxEntries.Revision(number: Int64($0.revision), time: $0.updatedAt, record: .call($0))
            })
    }

    package func aliasCommit(of decision: borrowing Decision) -> Commit? {
        guard let alias = decision.subject.alias, let call = decision.call, call != decision.subject.before else {
            return nil
        }
        return commit(
            .call(alias.callID), record: .alias(of: call.callID, origin: alias.origin), expected: alias.version,
            deadline: nil, expiresAt: now + settings.historyRetention)
    }

    /// Returns a commit that changes only the version of a claim's holder; nil for an unreadable record, which no
    /// coordinator can change.
    package func fence(_ callID: CallID, _ stored: StoredRecord?) -> Commit? {
        guard stored?.record != .unreadable else { return nil }
        var deadline: Milliseconds?
        var expiresAt: Milliseconds? = now + ServiceBounds.voidRecordLife
        if case .call(let call)? = stored?.record {
            deadline = CallMachine(call: call, settings: settings.calls).nextDeadline
            expiresAt = call.endedAt.map { $0 + settings.historyRetention }
        }
        return commit(
            .call(callID), record: stored?.record ?? .void, expected: stored?.version ?? 0, deadline: deadline,
            expiresAt: expiresAt)
    }

    /// Sets the claims that the call takes and gives up in its new state.
    private func setClaims(_ commit: inout Commit, before: Call?, after call: Call) {
        if call.mode == .advanced, settings.calls.oneActiveCall {
            for member in call.members {
                let was = before.map { $0.isLive && $0.member(member.userID)?.state == .accepted } ?? false
                let isNow = call.isLive && member.state == .accepted
                if isNow && !was { commit.claims.append(.activeCall(of: member.userID)) }
                if was && !isNow { commit.releases.append(.activeCall(of: member.userID)) }
            }
        }
        let claim = Claim.ringing(from: call.inviter, to: call.members[1].userID)
        let was = before.map(isRingingPair) ?? false
        let isNow = isRingingPair(call)
        if isNow && !was { commit.claims.append(claim) }
        if was && !isNow { commit.releases.append(claim) }
    }

    /// Whether a user rings a single other user.
    private func isRingingPair(_ call: Call) -> Bool {
        call.isLive && call.members.count == 2 && call.members[1].state.isPending && !call.members[1].isWithheld
    }

    /// Sets the invitations that the commit opens and settles.
    private func setOutstanding(_ commit: inout Commit, before: Call?, after call: Call) {
        for place in call.members.indices {
            let user = call.members[place].userID
            let new = call.invitation(at: place)
            let old = before?.invitation(of: user)
            // Most members are unchanged.
            guard old?.by != new?.by || old?.until != new?.until else { continue }
            if let new { commit.asked.append((.invitation(of: user, to: call.callID, by: new.by), new.until)) }
            if let old, old.by != new?.by {
                commit.settled.append(.invitation(of: user, to: call.callID, by: old.by))
            }
        }
    }
}

extension Call {
    /// Returns the user's unanswered invitation; nil without such an invitation.
    fileprivate func invitation(of user: UserID) -> (by: UserID, until: Milliseconds)? {
        for place in members.indices where members[place].userID == user { return invitation(at: place) }
        return nil
    }

    fileprivate func invitation(at place: Int) -> (by: UserID, until: Milliseconds)? {
        guard isLive, members[place].state.isPending, let invitedBy = members[place].invitedBy,
            let expiresAt = members[place].expiresAt
        else { return nil }
        return (invitedBy, expiresAt)
    }
}
