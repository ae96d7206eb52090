import CallCore

/// Deadlines that have come and wait: own ones, and those that a sweep has found. Each id waits once; work on its record takes it along
/// (docs/decisions/0018).
struct DeadlineQueue {
    /// A deadline may be in a list that no longer waits: some work took it along.
    private var own: [RecordID] = []
    private var found: [RecordID] = []
    private var waiting: Set<RecordID> = []
    /// Whose turn it was last: neither keeps the other waiting.
    private var wasOwn = false

    var count: Int { waiting.count }
    var hasFound: Bool { found.contains { waiting.contains($0) } }

    /// Own ones have come.
    mutating func add(own ids: [RecordID]) { own += ids.filter { waiting.insert($0).inserted } }

    /// Those of somebody who did not serve them.
    mutating func add(found ids: [RecordID]) { found += ids.filter { waiting.insert($0).inserted } }

    /// Whether the record's deadline waited. It is no longer waited for: whoever asks serves it with what else there is on the record.
    mutating func join(_ id: RecordID) -> Bool { !waiting.isEmpty && waiting.remove(id) != nil }

    /// How many own ones could begin.
    func ready(_ isFree: (RecordID) -> Bool) -> Int { own.count { waiting.contains($0) && isFree($0) } }

    /// Takes those that can begin, up to `limit`, of own ones or of those that were found, in turns.
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
