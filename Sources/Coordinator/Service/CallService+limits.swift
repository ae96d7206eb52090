import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// What is kept because of users (docs/protocol.md, section 2, Rate limits). What they ask for is counted by `Budgets`.
extension CallService {
    /// So many bytes were sent because of this user.
    func charge(_ bytes: Int, to user: UserID) { budgets.charge(bytes, to: .sentBytes(user), now: now) }

    /// What was stored in this period counts, and of the one before the share that is still kept: periods are as long as calls are
    /// kept, and what was stored in one is forgotten in the course of the next.
    func learnStoredBytes(_ lookup: Lookup, _ findings: Findings, _ facts: inout Facts) {
        let rest = settings.historyRetention - now % settings.historyRetention
        var sums: [UserID: Int] = [:]
        for (stored, bytes) in zip(lookup.stored, findings.stored) {
            let share = stored.number == period ? 1 : Double(rest) / Double(settings.historyRetention)
            sums[stored.user, default: 0] += Int(Double(min(max(bytes, 0), Self.manyBytes)) * share)
        }
        // What this coordinator has not written yet is counted by it already.
        for (user, bytes) in sums { facts.storedBytes[user] = bytes + usage.waiting(of: user) }
    }

    /// More than any store holds: what is damaged does not overflow.
    private static let manyBytes = 1 << 50

    private var period: Int64 { settings.storedPeriod(at: now) }

    // MARK: What is stored

    /// What a commit keeps more than before counts with who made the call, and what it keeps less is taken off again: else members
    /// could fill the room of who made it by going to and fro.
    func countStored(_ call: Call, before: Call?) {
        var bytes = call.approximateBytes + ServiceBounds.bytesBesideMember * call.members.count
        if let before {
            bytes -= before.approximateBytes + ServiceBounds.bytesBesideMember * before.members.count
        } else {
            bytes += ServiceBounds.bytesBesideCall
        }
        usage.add(bytes, to: call.inviter)
    }

    /// Adds to the call's timeline, which counts with who made the call.
    func record(_ steps: @autoclosure () -> [TraceEntry.Step], of call: Call) {
        guard recorder.isTraced(call.callID) else { return }
        let steps = steps()
        recorder.add(steps, of: call.callID, at: now)
        usage.add(entries: steps.count, of: call.callID, to: call.inviter)
    }

    /// Writes what was counted. Nobody waits for it; what cannot be written is not counted.
    public func writeUsage() {
        let usage = usage.take()
        guard !usage.isEmpty, clockFailure == nil, settings.quotas.storedBytes > 0 else { return }
        let until = (period + 2) * settings.historyRetention
        do throws(StoreError) {
            try store.charge(
                usage.map { StoredCharge(StoredPeriod(of: $0.user, number: period), bytes: $0.bytes, until: until) })
        } catch {
            failed(error)
        }
    }
}
