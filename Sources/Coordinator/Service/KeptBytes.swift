import CallCore
import CallStore
import SignalingProtocol

/// Computes how many bytes the store keeps because of each user (docs/protocol.md, section 2, Rate limits). `Budgets`
/// counts the requests of users.
struct KeptBytes {
    private let retention: Milliseconds
    private let period: Int64

    init(_ settings: ServiceSettings, now: Milliseconds) {
        retention = settings.historyRetention
        period = settings.storedPeriod(at: now)
    }

    /// Returns the charges to write for the bytes counted in this period. A period is as long as calls are kept, so
    /// that the bytes of each period are forgotten in the course of the next.
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
