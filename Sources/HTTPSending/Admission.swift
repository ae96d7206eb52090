/// The order of requests: only a few may be under way to each host, and a limited number in all. The others wait;
/// requests to one host go in order, and hosts take turns. A host that does not answer therefore delays only its own
/// requests.
struct Admission<Item> {
    private struct Line {
        var inFlight = 0
        var waiting: [Item] = []
        /// Whether the host stands in `turns`.
        var hasTurn = false
    }

    private let mostPerHost: Int
    private let mostInFlight: Int
    private let mostWaitingPerHost: Int
    private var lines: [Destination.Host: Line] = [:]
    /// The hosts with waiting requests and room for another request under way.
    private var turns: [Destination.Host] = []
    private(set) var inFlight = 0

    init(mostPerHost: Int, mostInFlight: Int, mostWaitingPerHost: Int) {
        self.mostPerHost = mostPerHost
        self.mostInFlight = mostInFlight
        self.mostWaitingPerHost = mostWaitingPerHost
    }

    /// Adds a request. Returns false when too many requests wait for the host already.
    mutating func add(_ item: Item, to host: Destination.Host) -> Bool {
        var line = lines[host] ?? Line()
        guard line.waiting.count < mostWaitingPerHost else { return false }
        line.waiting.append(item)
        lines[host] = line
        giveTurn(host)
        return true
    }

    /// Returns the next request that may go. `finished` must be called at its end.
    mutating func next() -> Item? {
        guard inFlight < mostInFlight, !turns.isEmpty else { return nil }
        let host = turns.removeFirst()
        guard var line = lines[host], !line.waiting.isEmpty else { preconditionFailure("a turn without a request") }
        let item = line.waiting.removeFirst()
        line.inFlight += 1
        line.hasTurn = false
        lines[host] = line
        inFlight += 1
        giveTurn(host)
        return item
    }

    /// Notes that a request to `host` has ended.
    mutating func finished(_ host: Destination.Host) {
        inFlight -= 1
        lines[host]?.inFlight -= 1
        giveTurn(host)
        forget(host)
    }

    /// Removes and returns the waiting requests that fulfil `isOver`.
    mutating func remove(where isOver: (Item) -> Bool) -> [Item] {
        var removed: [Item] = []
        for host in Array(lines.keys) {
            guard var line = lines[host], line.waiting.contains(where: isOver) else { continue }
            removed += line.waiting.filter(isOver)
            line.waiting.removeAll(where: isOver)
            if line.waiting.isEmpty, line.hasTurn {
                line.hasTurn = false
                turns.removeAll { $0 == host }
            }
            lines[host] = line
            forget(host)
        }
        return removed
    }

    /// All waiting requests.
    var waiting: [Item] { lines.values.flatMap(\.waiting) }

    private mutating func giveTurn(_ host: Destination.Host) {
        guard let line = lines[host], !line.hasTurn, !line.waiting.isEmpty, line.inFlight < mostPerHost else { return }
        lines[host]?.hasTurn = true
        turns.append(host)
    }

    private mutating func forget(_ host: Destination.Host) {
        if let line = lines[host], line.inFlight == 0, line.waiting.isEmpty { lines[host] = nil }
    }
}
