import CallCore
import SignalingProtocol

extension MemoryCallStore.Contents {
    /// All stored calls, in the order of their ids.
    package var calls: [Call] {
        entries.keys.sorted().compactMap { id in
            if case .call(let call)? = entries[id]?.record { call } else { nil }
        }
    }

    /// Loses all writes of calls and messages since `before`, as does a failover to a Redis replica that had not
    /// received the writes. Presence stays, because each device publishes its presence again.
    package mutating func forgetCalls(since before: Self) {
        entries = before.entries
        index = before.index
        claims = before.claims
    }

    /// Replaces the calls, lists and claims of a server of a cluster by those of an earlier state.
    package mutating func forgetCalls(
        since before: Self, records: (RecordID) -> Bool, users: (UserID) -> Bool, claims areLost: (Claim) -> Bool
    ) {
        entries = entries.filter { !records($0.key) }.merging(before.entries.filter { records($0.key) }) { $1 }
        index = index.filter { !users($0.key) }.merging(before.index.filter { users($0.key) }) { $1 }
        claims = claims.filter { !areLost($0.key) }.merging(before.claims.filter { areLost($0.key) }) { $1 }
    }

    /// Returns the worker that pushes for the call at present; nil when no worker pushes for the call.
    package func holderOfPushes(_ callID: CallID, now: Milliseconds) -> WorkerID? {
        pushes.holder(of: callID, now: now)
    }

    /// The queue of pushes, with a text for each call.
    package var queuedPushes: [String] { pushes.traits.sorted() }

    /// Returns the time of the record's next deadline; nil when the record has no deadline.
    package func deadline(of id: RecordID) -> Milliseconds? { entries[id]?.deadline }

    /// A hash of the stored data, the same in every run. Two contents that no request can tell apart have the same
    /// fingerprint: versions, and the order of successful requests, do not count.
    package var fingerprint: UInt64 {
        // The hashes are added up, because dictionaries have no order.
        var sum: UInt64 = 0
        for (id, entry) in entries { sum &+= fingerprint(of: entry, id) }
        for (claim, holder) in claims {
            switch claim {
            case .activeCall(let user): sum &+= stableHash("active \(user) \(holder)".utf8)
            case .ringing(let from, let to): sum &+= stableHash("ringing \(from) \(to) \(holder)".utf8)
            }
        }
        for presence in presence.values {
            for trait in presence.traits { sum &+= stableHash(trait.utf8) }
        }
        for trait in registrations.traits + pushes.traits { sum &+= stableHash(trait.utf8) }
        return sum
    }

    private func fingerprint(of entry: MemoryCallStore.Entry, _ id: RecordID) -> UInt64 {
        var record = entry.record
        if case .call(let call) = record { record = .call(call.withRequestsSorted) }
        var bytes = RecordCodec.encode(record)
        func append(_ text: String) {
            bytes.append(0)
            bytes += text.utf8
        }
        append(id.string)
        append("\(entry.deadline ?? 0)")
        for ack in entry.acks.values.sorted(by: { $0.device < $1.device }) {
            append("\(ack.device) \(ack.session) \(ack.revision)")
        }
        for push in entry.pushes.values.sorted(by: { $0.key < $1.key }) { append("\(push)") }
        for check in entry.checks.values.sorted(by: { $0.device < $1.device }) { append("\(check)") }
        for (user, at) in entry.heard.sorted(by: { $0.key < $1.key }) { append("\(user) \(at)") }
        return stableHash(bytes)
    }
}
