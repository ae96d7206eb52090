import CallCore
import SignalingProtocol

/// Collects how much is kept because of whom, until it is written.
struct StoredUsage {
    private var bytes: [UserID: Int] = [:]
    /// Entries of timelines that were counted: of each call no more than are kept.
    private var entries: [CallID: Int] = [:]

    mutating func add(_ count: Int, to user: UserID) { bytes[user, default: 0] += count }

    mutating func add(entries count: Int, of callID: CallID, to user: UserID) {
        let known = entries[callID] ?? 0
        let new = min(count, Limits.traceEntries - known)
        guard new > 0 else { return }
        if entries.count >= ServiceBounds.timelinesCounted { entries.removeAll(keepingCapacity: true) }
        entries[callID] = known + new
        add(new * ServiceBounds.bytesPerTraceEntry, to: user)
    }

    /// What was added for the user and is not taken out yet.
    func waiting(of user: UserID) -> Int { bytes[user] ?? 0 }

    var hasWaiting: Bool { !bytes.isEmpty }

    /// Takes out what waits to be written.
    mutating func take() -> [(user: UserID, bytes: Int)] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes.filter { $0.value != 0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
