import CallCore
import CallStore

/// Due records that nobody here can serve: damaged ones, or of a later version. The sweep passes over them, so that others are reached
/// that stand behind them; they are tried again now and then, since somebody may have mended them.
struct SetAside {
    /// How many are remembered. Beyond that the first due records may be ones that cannot be served.
    static let capacity = 4_096
    /// How long one is passed over, in milliseconds.
    static let duration: Milliseconds = 60_000

    private var until: [RecordID: Milliseconds] = [:]

    mutating func insert(_ id: RecordID, now: Milliseconds) {
        guard until[id] != nil || until.count < Self.capacity else { return }
        until[id] = now + Self.duration
    }

    /// Those that are passed over now.
    mutating func ids(now: Milliseconds) -> Set<RecordID> {
        guard !until.isEmpty else { return [] }
        until = until.filter { $0.value > now }
        return Set(until.keys)
    }
}
