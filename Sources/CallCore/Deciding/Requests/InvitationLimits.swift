import SignalingProtocol

/// The limits of the data that the service holds for a user, at all coordinators together (docs/protocol.md, section 2,
/// Rate limits).
package struct UserQuotas: Sendable, Equatable {
    /// The bound on a user's unanswered invitations. Each invitation is resent until the invitation is acked or over.
    package var liveInvitations = 100
    /// The number of these invitations that may ring at the same invitee.
    package var pairInvitations = 5
    /// The number of a user's messages that wait for an ack.
    package var waitingMessages = 100
    /// The bytes of the stored calls that a user has made, with their timelines; 0 for no limit. A call of two members
    /// takes about five thousand bytes, so that the default allows a thousand calls a day.
    package var storedBytes = 32 * 1024 * 1024

    package init() {}
}

extension ServiceBounds {
    /// The delay, in milliseconds, before a user with too many live invitations or queued messages should try again.
    package static let outstandingRetry = 5_000
    /// The delay, in milliseconds, before a user whose calls take too much room should try again: some calls are
    /// forgotten every day.
    package static let storedBytesRetry = 60_000
}

/// Limits of invitations (docs/protocol.md, section 2, Rate limits). Inbound messages are counted when they arrive.
extension Deciding {
    /// Reserves tokens of the limits of pair and callee for each invitee. `bytes` is the approximate size of the
    /// invitation. Returns the invitees beyond a limit, who are not invited; throws when all invitees are beyond a
    /// limit. An invitee counts towards the callee's limit only when the invitee would ring, and not when the invitee
    /// has blocked the inviter.
    func limit(
        _ invitees: [UserID], by user: UserID, bytes: Int, withheld: [UserID], _ decision: inout Decision
    ) throws -> [UserID] {
        var limited: [UserID] = []
        var longest = 0
        for invitee in invitees {
            if let retryAfter = try wait(of: user, toInvite: invitee, bytes, &decision) {
                limited.append(invitee)
                longest = max(longest, retryAfter)
                continue
            }
            let pair = RateLimiter.Key.pair(inviter: user, invitee: invitee)
            var keys = [pair]
            if !withheld.contains(invitee) { keys.append(.callee(invitee)) }
            guard let retryAfter = reserve(keys, for: user, &decision) else { continue }
            limited.append(invitee)
            longest = max(longest, retryAfter)
        }
        if limited.count == invitees.count { throw SignalingError.rateLimited(longest) }
        return limited
    }

    /// Throws when the user has sent a ringing member as many bytes as allowed, because a request that can be repeated
    /// would send more.
    func checkBytes(of user: UserID, in call: Call, _ decision: inout Decision) throws(SignalingError) {
        for member in call.members where member.state.isPending && member.userID != user {
            guard let refusal = allowances.refusal(of: 0, from: user, to: member.userID, now: now) else { continue }
            decision.counts.addLimited(user, by: refusal.limit.name)
            throw SignalingError.rateLimited(refusal.retryAfter)
        }
    }

    /// Returns the milliseconds that the user must wait before inviting `invitee`, because too many of the user's
    /// invitations ring there or the invitee was sent too many bytes; nil when the user may invite now.
    private func wait(
        of user: UserID, toInvite invitee: UserID, _ bytes: Int, _ decision: inout Decision
    ) throws(Undecided) -> Int? {
        let live = try facts.liveInvitations(of: user, settings)
        let own = decision.rings.reduce(0) { $0 + ($1.user == user ? $1.invitees.count { $0 == invitee } : 0) }
        guard live.byInvitee[invitee, default: 0] + own < settings.quotas.pairInvitations else {
            decision.counts.addLimited(user, by: "pairInvitations")
            return ServiceBounds.outstandingRetry
        }
        guard let refusal = allowances.refusal(of: bytes, from: user, to: invitee, now: now) else { return nil }
        decision.counts.addLimited(user, by: refusal.limit.name)
        return refusal.retryAfter
    }

    /// Reserves a token of each limit, or none. Returns the milliseconds until the next attempt; nil when the tokens
    /// were reserved.
    private func reserve(_ keys: [RateLimiter.Key], for user: UserID, _ decision: inout Decision) -> Int? {
        let reserved = decision.reserved.count
        for key in keys {
            if let retryAfter = allowances.wait(for: key, besides: decision.reserved.count { $0 == key }, now: now) {
                decision.counts.addLimited(user, by: key.name)
                decision.reserved.removeSubrange(reserved...)
                return retryAfter
            }
            decision.reserved.append(key)
        }
        return nil
    }

    /// Throws when the user has as many live invitations as allowed, or when the store keeps too many bytes because of
    /// the user. `invitees` is empty for a call that rings no user, because such a call is stored like other calls.
    func checkQuotas(of user: UserID, inviting invitees: [UserID], _ decision: inout Decision) throws {
        if settings.quotas.storedBytes > 0 {
            guard try facts.storedBytes(of: user, settings) <= settings.quotas.storedBytes else {
                decision.counts.addLimited(user, by: "storedBytes")
                throw SignalingError(
                    .rateLimited, "the stored calls of this user take as much room as allowed",
                    retryAfter: ServiceBounds.storedBytesRetry)
            }
        }
        guard !invitees.isEmpty else { return }
        let live = try facts.liveInvitations(of: user, settings)
        let own = decision.rings.reduce(0) { $0 + ($1.user == user ? $1.invitees.count : 0) }
        guard live.count + own + invitees.count <= settings.quotas.liveInvitations else {
            decision.counts.addLimited(user, by: "liveInvitations")
            throw SignalingError(
                .rateLimited, "too many invitations of this user are live", retryAfter: ServiceBounds.outstandingRetry)
        }
        decision.rings.append((user, invitees))
    }
}

extension [Query] {
    /// Returns the queries for the quotas of an inviting user.
    package static func quotas(of user: UserID, _ settings: ServiceSettings, now: Milliseconds) -> [Query] {
        let count = OutstandingCount(.invitations, of: user, after: now, limit: settings.quotas.liveInvitations)
        guard settings.quotas.storedBytes > 0 else { return [.outstanding(count)] }
        let period = settings.storedPeriod(at: now)
        return [.outstanding(count), .storedBytes(StoredPeriods(of: user, numbers: [period, period - 1]))]
    }
}

extension ServiceSettings {
    /// Returns the number of the period at `now`. A period is as long as calls are kept, so that the bytes of a period
    /// are forgotten in the course of the next period.
    package func storedPeriod(at now: Milliseconds) -> Int64 { now / historyRetention }

    /// A bound on each stored count, above the size of any store, so that a damaged count does not overflow.
    private static var largestStoredCount: Int { 1 << 50 }

    /// Returns the bytes that count for a user, given the bytes stored in the period at `now` and in the period before:
    /// all bytes of the first, and of the second the share that is still kept.
    func keptBytes(_ stored: [Int], at now: Milliseconds) -> Int {
        var sum = 0
        for (place, bytes) in stored.enumerated() {
            let rest = historyRetention - now % historyRetention
            let share = place == 0 ? 1 : Double(rest) / Double(historyRetention)
            sum += Int(Double(min(max(bytes, 0), Self.largestStoredCount)) * share)
        }
        return sum
    }
}

extension Decision {
    /// Removes the tokens that were reserved for the users in `invitees`, who are not invited after all. The first
    /// `count` reservations stay.
    mutating func giveBack(butFor count: Int, invitees: [UserID]) {
        guard !invitees.isEmpty else { return }
        let kept = reserved[count...].filter { key in
            switch key {
            case .pair(_, let invitee), .callee(let invitee): !invitees.contains(invitee)
            default: true
            }
        }
        reserved.replaceSubrange(count..., with: kept)
    }
}

extension SignalingError {
    /// Returns the error of an overloaded service. `retryAfter` is in milliseconds.
    package static func overloaded(retryAfter: Int) -> SignalingError {
        SignalingError(.unavailable, "there is more to do than can be done now", retryAfter: retryAfter)
    }

    package static let unavailable = SignalingError(.unavailable, "the service cannot answer now: send again")

    package static func rateLimited(_ retryAfter: Int) -> SignalingError {
        SignalingError(.rateLimited, "too many requests", retryAfter: retryAfter)
    }
}
