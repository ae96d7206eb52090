import CallCore
import SignalingProtocol

/// The limits of users: how much each user may still ask for and be sent (docs/protocol.md, section 2, Rate limits).
/// Each coordinator counts for itself.
///
/// While the store's clock cannot be read (`now` is nil), requests are neither counted nor served.
final class Budgets: Allowances {
    private var limiter: RateLimiter
    private var staleAcks = StaleAcks()
    private var pacing = ResendPacing()
    /// The deliveries that were held back from devices that have acknowledged a delivery since.
    private var released: [(id: RecordID, target: ResendPacing.Target, device: DeviceAddress)] = []
    /// First resends are left out while more bytes than this were sent to a user's devices lately: a slow line takes
    /// longer than a second.
    private static let muchOnItsWay = 24_000
    /// The bound on held-back deliveries that are released at once; the resend schedule sends the rest.
    private static let mostReleased = 256

    /// The users who met limits since `takeMostLimited`, with the last limit and the number of times.
    private var limited: [UserID: (limit: String, count: Int)] = [:]
    /// The bound on users in `limited`; further users are counted by the metric alone.
    private static let mostLimited = 256

    init(_ limits: RateLimits) { limiter = RateLimiter(limits) }

    // MARK: At intake

    /// Takes a request from a limit. Returns the milliseconds after which to try again when the limit is reached, or
    /// nil when the request is admitted.
    func admit(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.admit(key, now: now) else { return nil }
        note(key, &counts)
        return retryAfter
    }

    /// Returns the milliseconds until a limit of bytes has some left, or nil when the limit has some now.
    func debt(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.wait(key, now: now) else { return nil }
        note(key, &counts)
        return retryAfter
    }

    private func note(_ key: RateLimiter.Key, _ counts: inout Counts) {
        counts.add(.limited, key.name)
        note(key.user, key.name)
    }

    private func note(_ user: UserID, _ limit: String) {
        guard limited[user] != nil || limited.count < Self.mostLimited else { return }
        limited[user] = (limit, (limited[user]?.count ?? 0) + 1)
    }

    /// Notes the users who met a limit while a decision was made.
    func note(_ counts: Counts) {
        for (user, limit) in counts.limited { note(user, limit) }
    }

    /// Returns the user who met limits most often since the last call, with the last of these limits.
    func takeMostLimited() -> (user: UserID, limit: String, count: Int)? {
        defer { limited = [:] }
        return limited.max { $0.value.count < $1.value.count }.map { ($0.key, $0.value.limit, $0.value.count) }
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

    /// Notes the deliveries that a decision resends and holds back, for the later decisions.
    func pace(
        _ sentAgain: [(ResendPacing.Candidate, ResendPacing.Target)],
        _ heldBack: [(ResendPacing.Candidate, ResendPacing.Target)], now: Milliseconds
    ) {
        for (candidate, target) in sentAgain { pacing.sentAgain(candidate, to: target, now: now) }
        for (candidate, target) in heldBack { pacing.heldBack(candidate, from: target) }
    }

    /// Whether a delivery was resent lately.
    var isPacing: Bool { !pacing.isEmpty }

    /// Charges the bytes that a resent delivery took beyond the expected number.
    func charge(_ bytes: Int, resentTo target: ResendPacing.Target, now: Milliseconds) {
        pacing.charge(bytes, to: target, now: now)
    }

    /// Notes that a device has acknowledged an event of a call, or a peer message.
    func acknowledged(_ id: RecordID, by device: DeviceAddress) {
        let found = pacing.acknowledged(id, by: device).prefix(max(0, Self.mostReleased - released.count))
        released += found.map { ($0.id, $0.target, device) }
    }

    /// Notes that a device has begun a session.
    func began(_ device: DeviceAddress) { pacing.began(device) }

    /// Takes out the deliveries that were held back from devices that have acknowledged a delivery since.
    func takeReleased() -> [(id: RecordID, target: ResendPacing.Target, device: DeviceAddress)] {
        defer { released = [] }
        return released
    }

    // MARK: After deciding

    /// Takes the limits that a decision has reserved, for the later decisions.
    func take(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.take(1, of: key, now: now) }
    }

    /// Gives the reserved limits back when the decision is not committed.
    func giveBack(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.giveBack(of: key, now: now) }
    }

    /// Charges bytes that were sent.
    func charge(_ bytes: Int, to key: RateLimiter.Key, now: Milliseconds) { limiter.take(bytes, of: key, now: now) }

    /// Charges bytes that were sent between two users.
    func charge(_ bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds) {
        guard sender != recipient else { return }
        limiter.take(bytes, of: .pairBytes(from: sender, to: recipient), now: now)
        limiter.take(bytes, of: .calleeBytes(recipient), now: now)
    }

    /// Returns how many bytes an event may take with its members' `extendedData`. A longer event is sent without that
    /// data.
    func room(from sender: UserID, to recipient: UserID, now: Milliseconds) -> Int {
        guard sender != recipient else { return Limits.downBytes }
        let room = limiter.room(from: sender, to: recipient, now: now)
        return min(max(room, RateLimiter.firstBytes), Limits.downBytes)
    }

    /// Gives back bytes that were sent between two users and are acknowledged.
    func giveBack(_ bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds) {
        guard sender != recipient else { return }
        limiter.giveBack(bytes, of: .pairBytes(from: sender, to: recipient), now: now)
        limiter.giveBack(bytes, of: .calleeBytes(recipient), now: now)
    }

    /// Notes that a device that sent a stale ack got its deliveries.
    func answered(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) {
        staleAcks.answered(device, callID, now: now)
    }
}
