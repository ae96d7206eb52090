import CallCore
import SignalingProtocol

/// Collects how many bytes are kept because of each user, until they are written.
struct StoredUsage {
    private var bytes: [UserID: Int] = [:]
    /// The counted timeline entries per call. Entries beyond the bound on kept entries per call are not counted.
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

    /// Returns the bytes that were added for the user and not taken out yet.
    func waiting(of user: UserID) -> Int { bytes[user] ?? 0 }

    var hasWaiting: Bool { !bytes.isEmpty }

    /// Takes out the bytes that wait to be written.
    mutating func take() -> [(user: UserID, bytes: Int)] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes.filter { $0.value != 0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
