import SignalingProtocol

/// The rate limits of users (docs/protocol.md, section 2, Rate limits).
package struct RateLimits: Sendable, Equatable {
    package struct Limit: Sendable, Equatable {
        /// The number per second in the long run; 0 for no limit.
        package var rate: Int
        /// The number that may come at once after a rest.
        package var burst: Int

        package init(rate: Int, burst: Int) {
            self.rate = rate
            self.burst = burst
        }
    }

    package var signals = Limit(rate: 500, burst: 1_000)
    package var messages = Limit(rate: 100, burst: 500)
    /// `call.invite` and `call.add`. No human user calls faster than this limit.
    package var invitations = Limit(rate: 10, burst: 100)
    /// All other requests.
    package var requests = Limit(rate: 500, burst: 2_000)
    /// Ring checks of a device about a call. A stranger who got the URL of a ring check can use up only this limit.
    package var ringChecks = Limit(rate: 5, burst: 50)
    /// All messages of a device, except presence.
    package var device = Limit(rate: 1_000, burst: 4_000)
    /// Presence messages of a device.
    package var presence = Limit(rate: 2, burst: 30)
    /// Invitations of a user by a particular other user.
    package var pair = Limit(rate: 1, burst: 20)
    /// Invitations of a user by all other users together.
    package var callee = Limit(rate: 10, burst: 200)
    /// Bytes that are sent because of a user's requests and stale acks. The burst pays for every device of a user that
    /// comes back to 50 live calls, and for all of a long history.
    package var sentBytes = Limit(rate: 500_000, burst: 5_000_000)
    /// Bytes that a user's calls and messages send to another user. Ten users who send as much as allowed leave a line
    /// of 64 KiB/s some room. The burst passes such a line within a second.
    package var pairBytes = Limit(rate: 4_000, burst: 48_000)
    /// Bytes that the calls and messages of all other users send to a user. Beyond this limit, only senders who have
    /// sent the user no bytes lately, and few bytes now, are let through.
    package var calleeBytes = Limit(rate: 8_000, burst: 80_000)
    /// Requests of a user without bytes left that are served in spite of the debt: answering, cancelling and ending
    /// calls.
    package var inDebt = Limit(rate: 2, burst: 10)

    package init() {}
}

/// Counts the messages of users against the limits. Each coordinator counts for itself.
package struct RateLimiter {
    /// A limit with the user or device to which the limit applies.
    package enum Key: Hashable {
        case signals(UserID)
        case messages(UserID)
        case invitations(UserID)
        case requests(UserID)
        case ringChecks(DeviceAddress, CallID)
        case device(DeviceAddress)
        case presence(DeviceAddress)
        case pair(inviter: UserID, invitee: UserID)
        case callee(UserID)
        case sentBytes(UserID)
        /// Bytes that devices get when they come online, with a limit of their own: many calls to a user must not keep
        /// the user from its welcome.
        case welcomeBytes(UserID)
        /// Bytes that a user's calls and messages send to another user.
        case pairBytes(from: UserID, to: UserID)
        /// Bytes that the calls and messages of all other users send to a user.
        case calleeBytes(UserID)
        /// Requests of a user who is in debt for bytes.
        case inDebt(UserID)

        package init(_ user: UserID, _ body: Request.Body) {
            switch body {
            case .signal: self = .signals(user)
            case .message: self = .messages(user)
            case .invite, .add: self = .invitations(user)
            case .cancel, .accept, .reject, .join, .quit, .end, .get, .report, .trace, .media, .query, .userUpdate,
                .userQuery,
                .userBlock, .userBlockList, .userSignOut, .userDelete, .pushRegister, .pushUnregister:
                self = .requests(user)
            case .ringCheck(let check):
                self = .ringChecks(DeviceAddress(userID: user, deviceID: check.device), check.callID)
            }
        }

        /// The user whose messages the limit bounds.
        package var user: UserID {
            switch self {
            case .signals(let user), .messages(let user), .invitations(let user), .requests(let user),
                .callee(let user), .sentBytes(let user), .welcomeBytes(let user), .calleeBytes(let user),
                .inDebt(let user), .pair(let user, _), .pairBytes(let user, _):
                user
            case .ringChecks(let device, _), .device(let device), .presence(let device): device.userID
            }
        }

        /// Whether the limit counts bytes and may be overdrawn: the number of bytes is known only after the send.
        var isOverdrawn: Bool {
            switch self {
            case .sentBytes, .welcomeBytes, .pairBytes, .calleeBytes: true
            default: false
            }
        }

        /// The limit's name in metrics.
        package var name: String {
            switch self {
            case .signals: "signals"
            case .messages: "messages"
            case .invitations: "invitations"
            case .requests: "requests"
            case .ringChecks: "ringChecks"
            case .device: "device"
            case .presence: "presence"
            case .pair: "pair"
            case .callee: "callee"
            case .sentBytes: "sentBytes"
            case .welcomeBytes: "welcomeBytes"
            case .pairBytes: "pairBytes"
            case .calleeBytes: "calleeBytes"
            case .inDebt: "inDebt"
            }
        }
    }

    /// The number of buckets that are not full. Beyond this number, further users and devices are not counted until
    /// some buckets are full. This bounds memory, and refuses no request.
    package static let capacity = 200_000
    /// Buckets count in microseconds, so that a rate need not divide a second.
    private static let perMillisecond: Int64 = 1_000
    private static let perSecond: Int64 = 1_000 * perMillisecond
    /// The longest wait after an overdraft: a user who asked for much at once pays at most this time.
    private static let longestDebt: Int64 = 60 * perSecond

    private let limits: RateLimits
    /// The buckets that are not full.
    private var buckets: [Key: TokenBucket] = [:]
    /// The time of the next search for full buckets, so that a full limiter searches rarely; nil before the first
    /// search.
    private var nextSearch: Int64?
    private static let searchInterval: Int64 = 1_000_000

    package init(_ limits: RateLimits) { self.limits = limits }

    /// Takes a token from the bucket. Returns the milliseconds until the next attempt; nil when the message is
    /// admitted.
    package mutating func admit(_ key: Key, now: Milliseconds) -> Int? {
        if let wait = wait(key, for: 1, now: now) { return wait }
        take(1, of: key, now: now)
        return nil
    }

    /// Returns the milliseconds until `count` tokens may be taken; nil when they may be taken now.
    package func wait(_ key: Key, for count: Int, now: Milliseconds) -> Int? {
        guard limit(key).rate > 0 else { return nil }
        let excess = (buckets[key] ?? TokenBucket()).wait(
            for: time(for: count, key), size(key), now: now * Self.perMillisecond)
        return excess > 0 ? Int((excess + Self.perMillisecond - 1) / Self.perMillisecond) : nil
    }

    /// Gives tokens back, because the counted message did not come about or has ended.
    package mutating func giveBack(_ amount: Int = 1, of key: Key, now: Milliseconds) {
        guard var bucket = buckets[key] else { return }
        bucket.giveBack(time(for: amount, key))
        buckets[key] = bucket.isFull(now: now * Self.perMillisecond) ? nil : bucket
    }

    /// Returns the milliseconds until an overdrawn bucket holds tokens again; nil when the bucket holds some now.
    package func wait(_ key: Key, now: Milliseconds) -> Int? {
        guard limit(key).rate > 0 else { return nil }
        let excess = (buckets[key] ?? TokenBucket()).wait(for: 0, size(key), now: now * Self.perMillisecond)
        return excess < 0 ? nil : Int(excess / Self.perMillisecond) + 1
    }

    /// The bytes that a user may send to another user, regardless of other senders, if the user has sent that user no
    /// bytes lately.
    package static let firstBytes = 4_096

    /// Returns the limit and the milliseconds until the next attempt when an invitation or message of about `bytes`
    /// bytes may not be sent from `sender` to `recipient` now; nil when the message may be sent.
    ///
    /// With 0 `bytes`, only the limit of this pair counts, regardless of other senders.
    package func refusal(
        of bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds
    ) -> (limit: Key, retryAfter: Int)? {
        guard sender != recipient else { return nil }
        let pair = Key.pairBytes(from: sender, to: recipient)
        if let retryAfter = wait(pair, now: now) { return (pair, retryAfter) }
        guard bytes > 0 else { return nil }
        let callee = Key.calleeBytes(recipient)
        guard let retryAfter = wait(callee, now: now) else { return nil }
        let hasSent = buckets[pair].map { !$0.isFull(now: now * Self.perMillisecond) } ?? false
        return hasSent || bytes > Self.firstBytes ? (callee, retryAfter) : nil
    }

    /// Returns the number of bytes for which both limits have room in an event from `sender` to `recipient`; `.max`
    /// without limits.
    package func room(from sender: UserID, to recipient: UserID, now: Milliseconds) -> Int {
        [Key.pairBytes(from: sender, to: recipient), .calleeBytes(recipient)].map { key in
            limit(key).rate > 0 ? max(0, limit(key).burst - taken(of: key, now: now)) : .max
        }.min()!
    }

    /// Returns the part of a limit of bytes that is taken.
    package func taken(of key: Key, now: Milliseconds) -> Int {
        guard limit(key).rate > 0, let bucket = buckets[key] else { return 0 }
        let room = time(for: limit(key).burst, key)
        let left = bucket.wait(for: 0, size(key), now: now * Self.perMillisecond)
        return Int((room + left) * Int64(limit(key).rate) / Self.perSecond)
    }

    /// Takes tokens for a message that can no longer be refused, even when fewer tokens are left.
    package mutating func take(_ amount: Int, of key: Key, now: Milliseconds) {
        guard limit(key).rate > 0 else { return }
        let now = now * Self.perMillisecond
        var bucket = buckets[key] ?? TokenBucket()
        bucket.take(time(for: amount, key), size(key), now: now)
        keep(bucket, key, now)
    }

    private mutating func keep(_ bucket: TokenBucket, _ key: Key, _ now: Int64) {
        if buckets.count >= Self.capacity, buckets[key] == nil {
            // The last condition covers a clock that went back.
            if let nextSearch, now < nextSearch, nextSearch - now <= Self.searchInterval { return }
            nextSearch = now + Self.searchInterval
            buckets = buckets.filter { !$0.value.isFull(now: now) }
            guard buckets.count < Self.capacity else { return }
        }
        buckets[key] = bucket
    }

    private func size(_ key: Key) -> TokenBucket.Size {
        TokenBucket.Size(room: time(for: limit(key).burst, key), debt: key.isOverdrawn ? Self.longestDebt : 0)
    }

    /// Returns the time, in microseconds, in which a bucket gains this amount.
    private func time(for amount: Int, _ key: Key) -> Int64 {
        let rate = Int64(limit(key).rate)
        // A burst allows exactly its number of messages, even when the time of a token is no whole number of
        // microseconds.
        return key.isOverdrawn ? Int64(amount) * Self.perSecond / rate : Int64(amount) * (Self.perSecond / rate)
    }

    private func limit(_ key: Key) -> RateLimits.Limit {
        switch key {
        case .signals: limits.signals
        case .messages: limits.messages
        case .invitations: limits.invitations
        case .requests: limits.requests
        case .ringChecks: limits.ringChecks
        case .device: limits.device
        case .presence: limits.presence
        case .pair: limits.pair
        case .callee: limits.callee
        case .sentBytes, .welcomeBytes: limits.sentBytes
        case .pairBytes: limits.pairBytes
        case .calleeBytes: limits.calleeBytes
        case .inDebt: limits.inDebt
        }
    }
}
