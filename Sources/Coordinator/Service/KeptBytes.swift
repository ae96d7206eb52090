import CallCore
import CallStore
import SignalingProtocol

/// What is kept because of users (docs/protocol.md, section 2, Rate limits). What they ask for is counted by `Budgets`.
struct KeptBytes {
    private let retention: Milliseconds
    private let now: Milliseconds
    private let period: Int64

    init(_ settings: ServiceSettings, now: Milliseconds) {
        retention = settings.historyRetention
        self.now = now
        period = settings.storedPeriod(at: now)
    }

    /// More than any store holds: what is damaged does not overflow.
    private static let many = 1 << 50

    /// What was stored in this period counts, and of the one before the share that is still kept: periods are as long as calls are
    /// kept, and what was stored in one is forgotten in the course of the next.
    func sums(_ lookup: Lookup, _ findings: Findings) -> [UserID: Int] {
        let rest = retention - now % retention
        var sums: [UserID: Int] = [:]
        for (stored, bytes) in zip(lookup.stored, findings.stored) {
            let share = stored.number == period ? 1 : Double(rest) / Double(retention)
            sums[stored.user, default: 0] += Int(Double(min(max(bytes, 0), Self.many)) * share)
        }
        return sums
    }

    /// What is to be written of what was counted in this period.
    func charges(_ usage: [(user: UserID, bytes: Int)]) -> [StoredCharge] {
        let until = (period + 2) * retention
        return usage.map { StoredCharge(StoredPeriod(of: $0.user, number: period), bytes: $0.bytes, until: until) }
    }

    /// What a commit keeps more than before counts with who made the call, and what it keeps less is taken off again: else members
    /// could fill the room of who made it by going to and fro.
    static func difference(_ call: Call, _ before: Call?) -> Int {
        let bytes = call.approximateBytes + ServiceBounds.bytesBesideMember * call.members.count
        guard let before else { return bytes + ServiceBounds.bytesBesideCall }
        return bytes - before.approximateBytes - ServiceBounds.bytesBesideMember * before.members.count
    }
}
