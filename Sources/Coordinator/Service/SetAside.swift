import CallCore
import CallStore

/// The due records that this coordinator cannot serve: damaged records, or records of a later version. The sweep passes
/// over these records, so that later records are not hidden. The sweep tries each record again after `duration`, since
/// an operator may have repaired the record.
struct SetAside {
    /// The bound on records that are remembered. Beyond this number, the due index may begin with records that cannot
    /// be served.
    static let capacity = 4_096
    /// How long a record is passed over, in milliseconds.
    static let duration: Milliseconds = 60_000

    private var until: [RecordID: Milliseconds] = [:]

    mutating func insert(_ id: RecordID, now: Milliseconds) {
        guard until[id] != nil || until.count < Self.capacity else { return }
        until[id] = now + Self.duration
    }

    /// Returns the records that are passed over at `now`.
    mutating func ids(now: Milliseconds) -> Set<RecordID> {
        guard !until.isEmpty else { return [] }
        until = until.filter { $0.value > now }
        return Set(until.keys)
    }
}
