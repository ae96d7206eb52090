import CallCore

/// The deadlines that have come and wait to be served: this coordinator's own deadlines, and deadlines that a sweep has
/// found. Each record waits once; a batch that serves the record serves its deadline too (docs/decisions/0018).
struct DeadlineQueue {
    /// This coordinator's own deadlines. A deadline that a batch has taken stays in its list for a while, and no longer
    /// in `waiting`.
    private var own: [RecordID] = []
    private var found: [RecordID] = []
    private var waiting: Set<RecordID> = []
    /// Whether own deadlines had the last turn. The two lists take turns, so that neither delays the other.
    private var wasOwn = false

    var count: Int { waiting.count }
    var hasFound: Bool { found.contains { waiting.contains($0) } }

    /// Adds deadlines of this coordinator's own timers that have come.
    mutating func add(own ids: [RecordID]) { own += ids.filter { waiting.insert($0).inserted } }

    /// Adds deadlines that another coordinator did not serve.
    mutating func add(found ids: [RecordID]) { found += ids.filter { waiting.insert($0).inserted } }

    /// Removes the record's deadline. Returns whether the deadline waited: the calling batch then serves the deadline
    /// with the record's queued requests.
    mutating func join(_ id: RecordID) -> Bool { !waiting.isEmpty && waiting.remove(id) != nil }

    /// Returns the number of own deadlines that can begin.
    func ready(_ isFree: (RecordID) -> Bool) -> Int { own.count { waiting.contains($0) && isFree($0) } }

    /// Takes up to `limit` deadlines that can begin, in turns from the own deadlines and from the deadlines of sweeps.
    mutating func take(_ limit: Int, _ isFree: (RecordID) -> Bool) -> (ids: [RecordID], areOwn: Bool) {
        guard !waiting.isEmpty else {
            own = []
            found = []
            return ([], true)
        }
        wasOwn.toggle()
        var ids = takeNext(limit, isFree)
        if ids.isEmpty {
            wasOwn.toggle()
            ids = takeNext(limit, isFree)
        }
        return (ids, wasOwn)
    }

    private mutating func takeNext(_ limit: Int, _ isFree: (RecordID) -> Bool) -> [RecordID] {
        var taken: [RecordID] = []
        var left: [RecordID] = []
        for id in wasOwn ? own : found where waiting.contains(id) {
            if taken.count < limit, isFree(id) {
                taken.append(id)
                waiting.remove(id)
            } else {
                left.append(id)
            }
        }
        if wasOwn { own = left } else { found = left }
        return taken
    }
}
