import CallCore
import SignalingProtocol

/// How much a user may ask for (docs/protocol.md, section 2, Rate limits).
public struct RateLimits: Sendable, Equatable {
    public struct Limit: Sendable, Equatable {
        /// Requests per second in the long run; 0 means without limit.
        public var rate: Int
        /// Requests at once after a rest.
        public var burst: Int

        public init(rate: Int, burst: Int) {
            self.rate = rate
            self.burst = burst
        }
    }

    public var signals = Limit(rate: 500, burst: 1_000)
    public var messages = Limit(rate: 100, burst: 500)
    public var requests = Limit(rate: 500, burst: 2_000)

    public init() {}
}

/// Counts requests per user and class. Each coordinator counts for itself.
///
/// A bucket is one number: the moment at which it will be full again. It needs no entry while it is full.
struct RateLimiter {
    enum Class: Hashable {
        case signal, message, request

        init(_ body: Request.Body) {
            switch body {
            case .signal: self = .signal
            case .message: self = .message
            case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end, .get, .report, .trace, .query,
                .userUpdate, .userQuery:
                self = .request
            }
        }
    }

    private struct Key: Hashable {
        let user: UserID
        let kind: Class
    }

    /// Users beyond this many at once are not counted until others have rested: memory is bounded, nobody is refused.
    static let capacity = 100_000
    /// Buckets are counted in microseconds, so that a rate need not divide a second.
    private static let perMillisecond: Int64 = 1_000

    private let limits: RateLimits
    /// When each bucket is full again, in microseconds of the service's clock.
    private var fullAt: [Key: Int64] = [:]

    init(_ limits: RateLimits) { self.limits = limits }

    /// Takes one request of the user. Returns the milliseconds after which to try again; nil when it is admitted.
    mutating func admit(_ user: UserID, _ kind: Class, now: Milliseconds) -> Int? {
        let limit = limit(kind)
        guard limit.rate > 0 else { return nil }
        let cost = 1_000 * Self.perMillisecond / Int64(limit.rate)
        let now = now * Self.perMillisecond
        let key = Key(user: user, kind: kind)
        var known = max(fullAt[key] ?? now, now)
        // The clock was set back: nobody is kept waiting for what was never asked.
        if known > now + cost * Int64(limit.burst) { known = now }
        let full = known + cost
        let excess = full - now - cost * Int64(limit.burst)
        guard excess <= 0 else { return Int((excess + Self.perMillisecond - 1) / Self.perMillisecond) }
        if fullAt[key] == nil, fullAt.count >= Self.capacity {
            fullAt = fullAt.filter { $0.value > now }
            guard fullAt.count < Self.capacity else { return nil }
        }
        fullAt[key] = full
        return nil
    }

    private func limit(_ kind: Class) -> RateLimits.Limit {
        switch kind {
        case .signal: limits.signals
        case .message: limits.messages
        case .request: limits.requests
        }
    }
}
