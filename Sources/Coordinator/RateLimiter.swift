import CallCore
import SignalingProtocol

/// How much users may ask for (docs/protocol.md, section 2, Rate limits).
public struct RateLimits: Sendable, Equatable {
    public struct Limit: Sendable, Equatable {
        /// How many per second in the long run; 0 means without limit.
        public var rate: Int
        /// How many at once after a rest.
        public var burst: Int

        public init(rate: Int, burst: Int) {
            self.rate = rate
            self.burst = burst
        }
    }

    public var signals = Limit(rate: 500, burst: 1_000)
    public var messages = Limit(rate: 100, burst: 500)
    public var requests = Limit(rate: 500, burst: 2_000)
    /// All that one device sends, of whatever kind, presence aside.
    public var device = Limit(rate: 1_000, burst: 4_000)
    /// Presence of one device.
    public var presence = Limit(rate: 2, burst: 30)
    /// Invitations of one user by another one.
    public var pair = Limit(rate: 20, burst: 500)
    /// Invitations of one user by all others.
    public var callee = Limit(rate: 50, burst: 2_000)

    public init() {}
}

/// Counts what users send. Each coordinator counts for itself.
///
/// A bucket is one number: the moment at which it will be full again. It needs no entry while it is full.
struct RateLimiter {
    /// What is counted.
    enum Key: Hashable {
        case signals(UserID)
        case messages(UserID)
        case requests(UserID)
        case device(DeviceAddress)
        case presence(DeviceAddress)
        case pair(inviter: UserID, invitee: UserID)
        case callee(UserID)

        init(_ user: UserID, _ body: Request.Body) {
            switch body {
            case .signal: self = .signals(user)
            case .message: self = .messages(user)
            case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end, .get, .report, .trace, .query,
                .userUpdate, .userQuery, .userBlock, .userBlockList:
                self = .requests(user)
            }
        }
    }

    /// Beyond this many buckets that are not full, others are not counted until some have rested: memory is bounded, nobody
    /// is refused.
    static let capacity = 200_000
    /// Buckets are counted in microseconds, so that a rate need not divide a second.
    private static let perMillisecond: Int64 = 1_000

    private let limits: RateLimits
    /// When each bucket is full again, in microseconds of the service's clock.
    private var fullAt: [Key: Int64] = [:]
    /// When room is looked for again, so that a full limiter does not do it with each message; nil: at once.
    private var nextSearch: Int64?
    private static let searchInterval: Int64 = 1_000_000

    init(_ limits: RateLimits) { self.limits = limits }

    /// Takes one of the bucket. Returns the milliseconds after which to try again; nil when it is admitted.
    mutating func admit(_ key: Key, now: Milliseconds) -> Int? {
        let limit = limit(key)
        guard limit.rate > 0 else { return nil }
        let cost = 1_000 * Self.perMillisecond / Int64(limit.rate)
        let now = now * Self.perMillisecond
        var known = max(fullAt[key] ?? now, now)
        // The clock was set back: nobody is kept waiting for what was never asked.
        if known > now + cost * Int64(limit.burst) { known = now }
        let full = known + cost
        let excess = full - now - cost * Int64(limit.burst)
        guard excess <= 0 else { return Int((excess + Self.perMillisecond - 1) / Self.perMillisecond) }
        if fullAt[key] == nil, fullAt.count >= Self.capacity {
            // Unless the clock was set back.
            if let nextSearch, now < nextSearch, nextSearch - now <= Self.searchInterval { return nil }
            nextSearch = now + Self.searchInterval
            fullAt = fullAt.filter { $0.value > now }
            guard fullAt.count < Self.capacity else { return nil }
        }
        fullAt[key] = full
        return nil
    }

    private func limit(_ key: Key) -> RateLimits.Limit {
        switch key {
        case .signals: limits.signals
        case .messages: limits.messages
        case .requests: limits.requests
        case .device: limits.device
        case .presence: limits.presence
        case .pair: limits.pair
        case .callee: limits.callee
        }
    }
}
