import CallCore
import CallStore
import SignalingProtocol

/// What is taken of limits when something is decided, and given back when it does not come about (docs/protocol.md, section 2,
/// Rate limits). What comes in is counted when it comes: `isAdmitted`.
extension CallService {
    /// Takes one of the limits of pair and callee for each invitee. Those beyond are not invited; throws when that is all.
    /// Counted with the callee is who would ring: not who has blocked the inviter.
    func limit(
        _ invitees: [UserID], by user: UserID, _ context: inout CallMachine.Context, _ decision: Decision
    ) throws(SignalingError) {
        var longest = 0
        for invitee in invitees {
            let pair = RateLimiter.Key.pair(inviter: user, invitee: invitee)
            var keys = [pair]
            if !context.withheld.contains(invitee) { keys.append(.callee(invitee)) }
            guard let retryAfter = reserve(keys, decision) else { continue }
            context.limited.append(invitee)
            longest = max(longest, retryAfter)
        }
        if context.limited.count == invitees.count { throw .rateLimited(longest) }
    }

    /// Takes one of each, or nothing. Returns the milliseconds after which to try again; nil when it was taken.
    private func reserve(_ keys: [RateLimiter.Key], _ decision: Decision) -> Int? {
        let reserved = decision.reserved.count
        for key in keys {
            if let retryAfter = limiter.admit(key, now: now) {
                decision.counts.add(.limited, key.name)
                giveBack(decision, butFor: reserved)
                return retryAfter
            }
            decision.reserved.append(key)
        }
        return nil
    }

    /// Gives back what a decision took of limits, but for the first so many.
    func giveBack(_ decision: Decision, butFor count: Int = 0) {
        for key in decision.reserved[count...] { limiter.giveBack(key, now: now) }
        decision.reserved.removeSubrange(count...)
    }

    /// Gives back what was taken, after the first so many, for invitees who are not invited.
    func giveBack(_ decision: Decision, butFor count: Int, invitees: [UserID]) {
        guard !invitees.isEmpty else { return }
        let rest = decision.reserved[count...]
        decision.reserved.removeSubrange(count...)
        for key in rest {
            switch key {
            case .pair(_, let invitee) where invitees.contains(invitee),
                .callee(let invitee) where invitees.contains(invitee):
                limiter.giveBack(key, now: now)
            default: decision.reserved.append(key)
            }
        }
    }

    // MARK: Bytes

    /// The milliseconds until the user may ask for more, when as much has been sent because of it as may be; else nil.
    func debt(of user: UserID) -> Int? {
        let key = RateLimiter.Key.sentBytes(user)
        guard clockFailure == nil, let retryAfter = limiter.wait(key, now: now) else { return nil }
        counters.add(.limited, key.name)
        return retryAfter
    }

    /// So many bytes were sent because of this user.
    func charge(_ bytes: Int, to user: UserID) { limiter.take(bytes, of: .sentBytes(user), now: now) }

    /// Whether a device that acked an old revision is told at once what it is owed; else it has it with the next resend.
    func isAnswered(_ device: DeviceAddress, staleOn callID: CallID, _ decision: Decision) -> Bool {
        guard staleAcks.isFree(device, callID, now: now) else {
            decision.counts.add(.limited, "staleAcks")
            return false
        }
        guard limiter.wait(.sentBytes(device.userID), now: now) == nil else {
            decision.counts.add(.limited, RateLimiter.Key.sentBytes(device.userID).name)
            return false
        }
        return true
    }

    // MARK: What is held

    /// Throws when the user has as many live invitations as may be, or has made the store keep as much. `count`: 0 for a call that rings
    /// nobody, which is kept like others.
    func checkQuotas(of user: UserID, inviting count: Int, _ decision: Decision) throws {
        // What this coordinator has not written yet is counted by it already.
        guard try storedBytes(of: user) + usage.waiting(of: user) <= storedBytesLimit else {
            decision.counts.add(.limited, "storedBytes")
            throw SignalingError(
                .rateLimited, "this user's calls take as much room as they may",
                retryAfter: ServiceBounds.storedBytesRetry)
        }
        guard count > 0 else { return }
        let live = try liveInvitations(of: user)
        guard live + count <= settings.quotas.liveInvitations else {
            decision.counts.add(.limited, "liveInvitations")
            throw SignalingError(
                .rateLimited, "too many invitations of this user are live", retryAfter: ServiceBounds.outstandingRetry)
        }
        known.liveInvitations[user] = live + count
    }

    private var storedBytesLimit: Int { settings.quotas.storedBytes > 0 ? settings.quotas.storedBytes : .max }

    func expectQuotas(of user: UserID, _ lookup: inout Lookup) {
        lookup.outstanding.append(OutstandingCount(.invitations, of: user, after: now))
        guard settings.quotas.storedBytes > 0 else { return }
        lookup.stored += [period, period - 1].map { StoredPeriod(of: user, number: $0) }
    }

    private func liveInvitations(of user: UserID) throws(StoreError) -> Int {
        if let known = known.liveInvitations[user] { return known }
        return try store.read(Lookup(outstanding: [OutstandingCount(.invitations, of: user, after: now)])).outstanding[
            0]
    }

    private func storedBytes(of user: UserID) throws(StoreError) -> Int {
        guard settings.quotas.storedBytes > 0 else { return 0 }
        if let known = known.storedBytes[user] { return known }
        var lookup = Lookup()
        expectQuotas(of: user, &lookup)
        learnStoredBytes(lookup, try store.read(lookup))
        return known.storedBytes[user] ?? 0
    }

    /// What was stored in this period counts, and of the one before the share that is still kept: periods are as long as calls are
    /// kept, and what was stored in one is forgotten in the course of the next.
    func learnStoredBytes(_ lookup: Lookup, _ findings: Findings) {
        let rest = settings.historyRetention - now % settings.historyRetention
        for (stored, bytes) in zip(lookup.stored, findings.stored) {
            let share = stored.number == period ? 1 : Double(rest) / Double(settings.historyRetention)
            known.storedBytes[stored.user, default: 0] += Int(Double(min(max(bytes, 0), Self.manyBytes)) * share)
        }
    }

    /// More than any store holds: what is damaged does not overflow.
    private static let manyBytes = 1 << 50

    private var period: Int64 { now / settings.historyRetention }

    /// What the commit asks of others, and what it settles.
    func setOutstanding(_ commit: inout Commit, before: Call?, after call: Call) {
        for member in call.members {
            let new = member.invitation(to: call)
            let old = before.flatMap { before in before.entry(member.userID)?.invitation(to: before) }
            // Most members are as they were.
            guard old?.by != new?.by || old?.until != new?.until else { continue }
            if let new { commit.asked.append((.invitation(of: member.userID, to: call.callID, by: new.by), new.until)) }
            if let old, old.by != new?.by {
                commit.settled.append(.invitation(of: member.userID, to: call.callID, by: old.by))
            }
        }
    }

    // MARK: What is stored

    /// What a commit keeps more than before counts with who made the call, and what it keeps less is taken off again: else members
    /// could fill the room of who made it by going to and fro.
    func countStored(_ call: Call, before: Call?) {
        var bytes = call.approximateBytes + ServiceBounds.bytesBesideMember * call.members.count
        if let before {
            bytes -= before.approximateBytes + ServiceBounds.bytesBesideMember * before.members.count
        } else {
            bytes += ServiceBounds.bytesBesideCall
        }
        usage.add(bytes, to: call.inviter)
    }

    /// Adds to the call's timeline, which counts with who made the call.
    func record(_ steps: @autoclosure () -> [TraceEntry.Step], of call: Call) {
        guard recorder.isTraced(call.callID) else { return }
        let steps = steps()
        recorder.add(steps, of: call.callID, at: now)
        usage.add(entries: steps.count, of: call.callID, to: call.inviter)
    }

    /// Writes what was counted. Nobody waits for it; what cannot be written is not counted.
    public func writeUsage() {
        let usage = usage.take()
        guard !usage.isEmpty, clockFailure == nil, settings.quotas.storedBytes > 0 else { return }
        let until = (period + 2) * settings.historyRetention
        do throws(StoreError) {
            try store.charge(
                usage.map { StoredCharge(StoredPeriod(of: $0.user, number: period), bytes: $0.bytes, until: until) })
        } catch {
            failed(error)
        }
    }
}

extension Member {
    /// The invitation that this member has not answered.
    fileprivate func invitation(to call: Call) -> (by: UserID, until: Milliseconds)? {
        guard call.isLive, state.isPending, let invitedBy, let expiresAt else { return nil }
        return (invitedBy, expiresAt)
    }
}
