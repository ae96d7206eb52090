import CallCore
import CallStore
import SignalingProtocol

/// Computes how many bytes the store keeps because of each user (docs/protocol.md, section 2, Rate limits). `Budgets`
/// counts the requests of users.
struct KeptBytes {
    private let retention: Milliseconds
    private let now: Milliseconds
    private let period: Int64

    init(_ settings: ServiceSettings, now: Milliseconds) {
        retention = settings.historyRetention
        self.now = now
        period = settings.storedPeriod(at: now)
    }

    /// A bound on each stored count, above the size of any store, so that a damaged count does not overflow.
    private static let many = 1 << 50

    /// Returns the bytes that count per user: all bytes stored in this period, and of the bytes stored in the period
    /// before the share that is still kept. A period is as long as calls are kept, so that the bytes of each period are
    /// forgotten in the course of the next.
    func sums(_ lookup: Lookup, _ findings: Findings) -> [UserID: Int] {
        let rest = retention - now % retention
        var sums: [UserID: Int] = [:]
        for (stored, bytes) in zip(lookup.stored, findings.stored) {
            let share = stored.number == period ? 1 : Double(rest) / Double(retention)
            sums[stored.user, default: 0] += Int(Double(min(max(bytes, 0), Self.many)) * share)
        }
        return sums
    }

    /// Returns the charges to write for the bytes counted in this period.
    func charges(_ usage: [(user: UserID, bytes: Int)]) -> [StoredCharge] {
        let until = (period + 2) * retention
        return usage.map { StoredCharge(StoredPeriod(of: $0.user, number: period), bytes: $0.bytes, until: until) }
    }

    /// Returns the additional bytes that the store keeps after a commit; they are charged to the call's inviter. A
    /// negative difference is credited, or else members could use up the inviter's limit by changing a call back and
    /// forth.
    static func difference(_ call: Call, _ before: Call?) -> Int {
        let bytes = call.approximateBytes + ServiceBounds.bytesBesideMember * call.members.count
        guard let before else { return bytes + ServiceBounds.bytesBesideCall }
        return bytes - before.approximateBytes - ServiceBounds.bytesBesideMember * before.members.count
    }
}
