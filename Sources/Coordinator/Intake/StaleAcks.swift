import CallCore
import SignalingProtocol

/// The devices that sent a stale ack and got their deliveries a moment ago. Each device gets at most a single answer
/// per call and second, since an ack is short and the answer may be long. A device that acks more often gets the rest
/// by resends.
struct StaleAcks {
    private struct Key: Hashable {
        let device: DeviceAddress
        let callID: CallID
    }

    static let interval: Milliseconds = 1_000
    /// The bound on answers that are remembered within the interval: a few megabytes. At the bound, other devices get
    /// no answer.
    static let capacity = 20_000
    /// The interval between removals of old entries while no room is left.
    private static let searchInterval: Milliseconds = 100

    private var answeredAt: [Key: Milliseconds] = [:]
    private var nextSearch: Milliseconds = 0

    mutating func isFree(_ device: DeviceAddress, _ callID: CallID, now: Milliseconds) -> Bool {
        if let at = answeredAt[Key(device: device, callID: callID)] { return !Self.isRecent(at, now) }
        guard answeredAt.count >= Self.capacity else { return true }
        // A `nextSearch` far in the future shows that the clock was set back.
        if now < nextSearch, nextSearch - now <= Self.searchInterval { return false }
        nextSearch = now + Self.searchInterval
        answeredAt = answeredAt.filter { Self.isRecent($0.value, now) }
        return answeredAt.count < Self.capacity
    }

    mutating func answered(_ device: DeviceAddress, _ callID: CallID, now: Milliseconds) {
        answeredAt[Key(device: device, callID: callID)] = now
    }

    /// Whether `at` is recent; false when the clock was set back.
    private static func isRecent(_ at: Milliseconds, _ now: Milliseconds) -> Bool { at <= now && at + interval > now }
}
