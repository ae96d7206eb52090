import CallCore
import SignalingProtocol

/// What users may still ask for and be sent (docs/protocol.md, section 2, Rate limits). Each coordinator counts for itself.
///
/// While the store's clock cannot be read (`now` is nil) nothing is counted: nothing is served then either.
final class Budgets: Allowances {
    private var limiter: RateLimiter
    private var staleAcks = StaleAcks()
    private var pacing = ResendPacing()
    /// What was held back from devices that have acknowledged something since.
    private var released: [(id: RecordID, target: ResendPacing.Target, device: DeviceAddress)] = []
    /// While a user's devices were sent so many bytes lately, first resends are left out: a slow line takes longer than a second.
    private static let muchOnItsWay = 24_000
    /// Of what is released so much is served at once; the rest comes with its own schedule.
    private static let mostReleased = 256

    init(_ limits: RateLimits) { limiter = RateLimiter(limits) }

    // MARK: At intake

    /// Takes one. Returns the limit and the milliseconds after which to try again when there is none; nil when it is admitted.
    func admit(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.admit(key, now: now) else { return nil }
        counts.add(.limited, key.name)
        return retryAfter
    }

    /// The milliseconds until something is left of a budget of bytes; nil when something is.
    func debt(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.wait(key, now: now) else { return nil }
        counts.add(.limited, key.name)
        return retryAfter
    }

    // MARK: While deciding

    func wait(for key: RateLimiter.Key, besides reserved: Int, now: Milliseconds) -> Int? {
        limiter.wait(key, for: reserved + 1, now: now)
    }

    func wait(forBytesOf user: UserID, now: Milliseconds) -> Int? { limiter.wait(.sentBytes(user), now: now) }

    func refusal(
        of bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds
    ) -> (limit: RateLimiter.Key, retryAfter: Int)? {
        limiter.refusal(of: bytes, from: sender, to: recipient, now: now)
    }

    func mayAnswer(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) -> Bool {
        staleAcks.isFree(device, callID, now: now)
    }

    func mayResend(_ candidate: ResendPacing.Candidate, to target: ResendPacing.Target, now: Milliseconds) -> Bool {
        guard pacing.allows(candidate, to: target, now: now) else { return false }
        return !candidate.isFirst || limiter.taken(of: .calleeBytes(target.user), now: now) < Self.muchOnItsWay
    }

    // MARK: The pace of resends

    /// Notes what a decision sends again and holds back, for those that are decided after it.
    func pace(
        _ sentAgain: [(ResendPacing.Candidate, ResendPacing.Target)],
        _ heldBack: [(ResendPacing.Candidate, ResendPacing.Target)], now: Milliseconds
    ) {
        for (candidate, target) in sentAgain { pacing.sentAgain(candidate, to: target, now: now) }
        for (candidate, target) in heldBack { pacing.heldBack(candidate, from: target) }
    }

    /// Whether something was sent again lately.
    var isPacing: Bool { !pacing.isEmpty }

    /// Something that was sent again took so many bytes more than was expected of it.
    func charge(_ bytes: Int, resentTo target: ResendPacing.Target, now: Milliseconds) {
        pacing.charge(bytes, to: target, now: now)
    }

    /// A device has acknowledged an event of a call, or a message.
    func acknowledged(_ id: RecordID, by device: DeviceAddress) {
        let found = pacing.acknowledged(id, by: device).prefix(max(0, Self.mostReleased - released.count))
        released += found.map { ($0.id, $0.target, device) }
    }

    /// A device has begun a session.
    func began(_ device: DeviceAddress) { pacing.began(device) }

    /// Takes what was held back from devices that have acknowledged something since.
    func takeReleased() -> [(id: RecordID, target: ResendPacing.Target, device: DeviceAddress)] {
        defer { released = [] }
        return released
    }

    // MARK: When something is decided

    /// Takes what a decision has reserved, for those that are decided after it.
    func take(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.take(1, of: key, now: now) }
    }

    /// Gives it back when the decision does not come about.
    func giveBack(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.giveBack(of: key, now: now) }
    }

    /// So many bytes were sent.
    func charge(_ bytes: Int, to key: RateLimiter.Key, now: Milliseconds) { limiter.take(bytes, of: key, now: now) }

    /// So many bytes were sent from one user to another.
    func charge(_ bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds) {
        guard sender != recipient else { return }
        limiter.take(bytes, of: .pairBytes(from: sender, to: recipient), now: now)
        limiter.take(bytes, of: .calleeBytes(recipient), now: now)
    }

    /// How many bytes an event may take with its members' `extendedData`: it is sent without where there is no room for it.
    func room(from sender: UserID, to recipient: UserID, now: Milliseconds) -> Int {
        guard sender != recipient else { return Limits.downBytes }
        let room = limiter.room(from: sender, to: recipient, now: now)
        return min(max(room, RateLimiter.firstBytes), Limits.downBytes)
    }

    /// So many bytes that were sent from one user to another are acknowledged.
    func giveBack(_ bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds) {
        guard sender != recipient else { return }
        limiter.giveBack(bytes, of: .pairBytes(from: sender, to: recipient), now: now)
        limiter.giveBack(bytes, of: .calleeBytes(recipient), now: now)
    }

    /// A device that acked an old revision was told what it is owed.
    func answered(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) {
        staleAcks.answered(device, callID, now: now)
    }
}
