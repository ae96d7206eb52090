import SignalingProtocol

/// How much users may ask for (docs/protocol.md, section 2, Rate limits).
package struct RateLimits: Sendable, Equatable {
    package struct Limit: Sendable, Equatable {
        /// How many per second in the long run; 0 means without limit.
        package var rate: Int
        /// How many at once after a rest.
        package var burst: Int

        package init(rate: Int, burst: Int) {
            self.rate = rate
            self.burst = burst
        }
    }

    package var signals = Limit(rate: 500, burst: 1_000)
    package var messages = Limit(rate: 100, burst: 500)
    /// `call.invite` and `call.add`: people do not call faster.
    package var invitations = Limit(rate: 10, burst: 100)
    /// All other requests.
    package var requests = Limit(rate: 500, burst: 2_000)
    /// Ring checks of one device about one call: whoever has got hold of such a URL uses up nothing else.
    package var ringChecks = Limit(rate: 5, burst: 50)
    /// All that one device sends, of whatever kind, presence aside.
    package var device = Limit(rate: 1_000, burst: 4_000)
    /// Presence of one device.
    package var presence = Limit(rate: 2, burst: 30)
    /// Invitations of one user by another one.
    package var pair = Limit(rate: 1, burst: 20)
    /// Invitations of one user by all others.
    package var callee = Limit(rate: 10, burst: 200)
    /// Bytes that are sent because of one user's requests and stale acks. The burst pays for every device of a user that comes back to
    /// 50 live calls, and for the whole of a long history.
    package var sentBytes = Limit(rate: 500_000, burst: 5_000_000)
    /// Bytes that one user's calls and messages send to another user. Ten users who send as much as they may leave a line of 64 KiB/s
    /// some room; the burst passes such a line within a second.
    package var pairBytes = Limit(rate: 4_000, burst: 48_000)
    /// Bytes that the calls and messages of all others send to one user. Beyond it only those are let through who have sent that user
    /// nothing lately, and little now.
    package var calleeBytes = Limit(rate: 8_000, burst: 80_000)
    /// What of a user who has no bytes left is served all the same: answering, taking back and ending calls.
    package var inDebt = Limit(rate: 2, burst: 10)

    package init() {}
}

/// Counts what users send. Each coordinator counts for itself.
package struct RateLimiter {
    /// What is counted.
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
        /// The same of what devices are sent that come online, apart: whoever calls a user must not keep it from being welcomed.
        case welcomeBytes(UserID)
        /// Bytes that one user's calls and messages send to another user.
        case pairBytes(from: UserID, to: UserID)
        /// Bytes that the calls and messages of all others send to a user.
        case calleeBytes(UserID)
        /// Requests of a user who is in debt for bytes.
        case inDebt(UserID)

        package init(_ user: UserID, _ body: Request.Body) {
            switch body {
            case .signal: self = .signals(user)
            case .message: self = .messages(user)
            case .invite, .add: self = .invitations(user)
            case .cancel, .accept, .reject, .join, .quit, .end, .get, .report, .trace, .query, .userUpdate, .userQuery,
                .userBlock, .userBlockList, .userSignOut, .userDelete, .pushRegister, .pushUnregister:
                self = .requests(user)
            case .ringCheck(let check):
                self = .ringChecks(DeviceAddress(userID: user, deviceID: check.device), check.callID)
            }
        }

        /// It counts bytes, which are known when they are sent.
        var isOverdrawn: Bool {
            switch self {
            case .sentBytes, .welcomeBytes, .pairBytes, .calleeBytes: true
            default: false
            }
        }

        /// As metrics name the limit.
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

    /// Beyond this many buckets that are not full, others are not counted until some have rested: memory is bounded, nobody
    /// is refused.
    package static let capacity = 200_000
    /// Buckets are counted in microseconds, so that a rate need not divide a second.
    private static let perMillisecond: Int64 = 1_000
    private static let perSecond: Int64 = 1_000 * perMillisecond
    /// How long at most somebody waits who has overdrawn a bucket: for what was sent in one go by somebody who asked for much at once.
    private static let longestDebt: Int64 = 60 * perSecond

    private let limits: RateLimits
    /// Those that are not full.
    private var buckets: [Key: TokenBucket] = [:]
    /// When room is looked for again, so that a full limiter does not do it with each message; nil: at once.
    private var nextSearch: Int64?
    private static let searchInterval: Int64 = 1_000_000

    package init(_ limits: RateLimits) { self.limits = limits }

    /// Takes one of the bucket. Returns the milliseconds after which to try again; nil when it is admitted.
    package mutating func admit(_ key: Key, now: Milliseconds) -> Int? {
        if let wait = wait(key, for: 1, now: now) { return wait }
        take(1, of: key, now: now)
        return nil
    }

    /// The milliseconds after which so many may be taken; nil when they may be now.
    package func wait(_ key: Key, for count: Int, now: Milliseconds) -> Int? {
        guard limit(key).rate > 0 else { return nil }
        let excess = (buckets[key] ?? TokenBucket()).wait(
            for: time(for: count, key), size(key), now: now * Self.perMillisecond)
        return excess > 0 ? Int((excess + Self.perMillisecond - 1) / Self.perMillisecond) : nil
    }

    /// Gives back so many that were taken: for something that did not come about, or is over.
    package mutating func giveBack(_ amount: Int = 1, of key: Key, now: Milliseconds) {
        guard var bucket = buckets[key] else { return }
        bucket.giveBack(time(for: amount, key))
        buckets[key] = bucket.isFull(now: now * Self.perMillisecond) ? nil : bucket
    }

    /// The milliseconds until something is left of a bucket that `take` may have overdrawn; nil when something is.
    package func wait(_ key: Key, now: Milliseconds) -> Int? {
        guard limit(key).rate > 0 else { return nil }
        let excess = (buckets[key] ?? TokenBucket()).wait(for: 0, size(key), now: now * Self.perMillisecond)
        return excess < 0 ? nil : Int(excess / Self.perMillisecond) + 1
    }

    /// What a user who has sent another user nothing lately may send, however much others have sent there, in bytes.
    package static let firstBytes = 4_096

    /// `bytes`: 0 to ask for the limit of the two alone, whatever others have sent.
    ///
    /// The limit, and the milliseconds after which to try again, when an invitation or message of about so many bytes may not be sent from
    /// one user to another now; nil when it may.
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

    /// How many bytes of an event from one user to another there is room for: what is left of both limits, all where there are none.
    package func room(from sender: UserID, to recipient: UserID, now: Milliseconds) -> Int {
        [Key.pairBytes(from: sender, to: recipient), .calleeBytes(recipient)].map { key in
            limit(key).rate > 0 ? max(0, limit(key).burst - taken(of: key, now: now)) : .max
        }.min()!
    }

    /// How much of a limit of bytes is taken.
    package func taken(of key: Key, now: Milliseconds) -> Int {
        guard limit(key).rate > 0, let bucket = buckets[key] else { return 0 }
        let room = time(for: limit(key).burst, key)
        let left = bucket.wait(for: 0, size(key), now: now * Self.perMillisecond)
        return Int((room + left) * Int64(limit(key).rate) / Self.perSecond)
    }

    /// Takes what cannot be refused any more, also when less is left.
    package mutating func take(_ amount: Int, of key: Key, now: Milliseconds) {
        guard limit(key).rate > 0 else { return }
        let now = now * Self.perMillisecond
        var bucket = buckets[key] ?? TokenBucket()
        bucket.take(time(for: amount, key), size(key), now: now)
        keep(bucket, key, now)
    }

    private mutating func keep(_ bucket: TokenBucket, _ key: Key, _ now: Int64) {
        if buckets.count >= Self.capacity, buckets[key] == nil {
            // Unless the clock was set back.
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

    /// In which a bucket gains so much.
    private func time(for amount: Int, _ key: Key) -> Int64 {
        let rate = Int64(limit(key).rate)
        // A burst is as many as its number says, also where one of them takes no whole number of microseconds.
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
