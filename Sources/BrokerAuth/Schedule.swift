/// The due times of connections: a binary heap, so that the few due connections are found without reading all entries.
///
/// An outdated entry is recognised only when it is due; `isCrowded` says when there are so many outdated entries that
/// the heap should be rebuilt.
struct Schedule {
    typealias Entry = (at: Int64, connection: BrokerAuth.ConnectionID)

    private var entries: [Entry] = []

    var count: Int { entries.count }
    var next: Int64 { entries.first?.at ?? .max }

    /// Whether the heap should be rebuilt. Entries beyond twice the number of connections mostly belong to connections
    /// that are gone.
    func isCrowded(connections: Int) -> Bool { entries.count > 2 * connections + 1_024 }

    mutating func add(_ at: Int64, _ connection: BrokerAuth.ConnectionID) {
        guard at < .max else { return }
        entries.append((at, connection))
        var place = entries.count - 1
        while place > 0, entries[place].at < entries[(place - 1) / 2].at {
            entries.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    /// Removes and returns the earliest entry, if that entry is due.
    mutating func take(dueBy now: Int64) -> Entry? {
        guard let first = entries.first, first.at <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var place = 0
        while true {
            let children = (2 * place + 1)...(2 * place + 2)
            guard let least = children.filter({ $0 < entries.count }).min(by: { entries[$0].at < entries[$1].at }),
                entries[least].at < entries[place].at
            else { return first }
            entries.swapAt(place, least)
            place = least
        }
    }

    mutating func removeAll() { entries.removeAll(keepingCapacity: true) }
}
