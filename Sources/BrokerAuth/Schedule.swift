/// What is due when: a binary heap, so that nobody walks through all connections to find the few whose time has come.
///
/// An entry that no longer holds is found out when it comes up; `isCrowded` says when there are so many of them that the heap should be
/// made anew.
struct Schedule {
    typealias Entry = (at: Int64, connection: BrokerAuth.ConnectionID)

    private var entries: [Entry] = []

    var count: Int { entries.count }
    var next: Int64 { entries.first?.at ?? .max }

    /// Entries beyond twice the connections are mostly of connections that are gone.
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

    /// The earliest, if it is due.
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
