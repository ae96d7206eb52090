import CallCore
import SignalingProtocol

/// Which devices were just told what they are owed because they acked an old revision: one answer per device, call and second, since an
/// ack is short and the answer may be long. Who acks more often has the rest with the resends.
struct StaleAcks {
    private struct Key: Hashable {
        let device: DeviceAddress
        let callID: CallID
    }

    static let interval: Milliseconds = 1_000
    /// With so many answers within the interval there is none for others: a few megabytes are remembered.
    static let capacity = 20_000
    /// How often room is looked for where there is none.
    private static let searchInterval: Milliseconds = 100

    private var answeredAt: [Key: Milliseconds] = [:]
    private var nextSearch: Milliseconds = 0

    mutating func isFree(_ device: DeviceAddress, _ callID: CallID, now: Milliseconds) -> Bool {
        if let at = answeredAt[Key(device: device, callID: callID)] { return !Self.isRecent(at, now) }
        guard answeredAt.count >= Self.capacity else { return true }
        // Unless the clock was set back.
        if now < nextSearch, nextSearch - now <= Self.searchInterval { return false }
        nextSearch = now + Self.searchInterval
        answeredAt = answeredAt.filter { Self.isRecent($0.value, now) }
        return answeredAt.count < Self.capacity
    }

    mutating func answered(_ device: DeviceAddress, _ callID: CallID, now: Milliseconds) {
        answeredAt[Key(device: device, callID: callID)] = now
    }

    /// Not when the clock was set back.
    private static func isRecent(_ at: Milliseconds, _ now: Milliseconds) -> Bool { at <= now && at + interval > now }
}
