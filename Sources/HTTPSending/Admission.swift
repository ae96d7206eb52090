/// The order of requests: only a few may be under way to each host, and a limited number in all. The others wait;
/// requests to one host go in order, and hosts take turns. A host that does not answer therefore delays only its own
/// requests.
struct Admission<Request> {
    private struct HostQueue {
        var inFlight = 0
        var waiting: [Request] = []
        /// Whether the host stands in `turns`.
        var hasTurn = false
    }

    private let mostPerHost: Int
    private let mostInFlight: Int
    private let mostWaitingPerHost: Int
    private var queues: [Destination.Host: HostQueue] = [:]
    /// The hosts with waiting requests and room for another request under way.
    private var turns: [Destination.Host] = []
    private(set) var inFlight = 0

    init(mostPerHost: Int, mostInFlight: Int, mostWaitingPerHost: Int) {
        self.mostPerHost = mostPerHost
        self.mostInFlight = mostInFlight
        self.mostWaitingPerHost = mostWaitingPerHost
    }

    /// Adds a request. Returns false when too many requests wait for the host already.
    mutating func add(_ request: Request, to host: Destination.Host) -> Bool {
        var queue = queues[host] ?? HostQueue()
        guard queue.waiting.count < mostWaitingPerHost else { return false }
        queue.waiting.append(request)
        queues[host] = queue
        giveTurn(host)
        return true
    }

    /// Returns the next request that may go. `finished` must be called at its end.
    mutating func next() -> Request? {
        guard inFlight < mostInFlight, !turns.isEmpty else { return nil }
        let host = turns.removeFirst()
        guard var queue = queues[host], !queue.waiting.isEmpty else { preconditionFailure("a turn without a request") }
        let request = queue.waiting.removeFirst()
        queue.inFlight += 1
        queue.hasTurn = false
        queues[host] = queue
        inFlight += 1
        giveTurn(host)
        return request
    }

    /// Notes that a request to `host` has ended.
    mutating func finished(_ host: Destination.Host) {
        inFlight -= 1
        queues[host]?.inFlight -= 1
        giveTurn(host)
        forget(host)
    }

    /// Removes and returns the waiting requests that fulfil `isOver`.
    mutating func remove(where isOver: (Request) -> Bool) -> [Request] {
        var removed: [Request] = []
        for host in Array(queues.keys) {
            guard var queue = queues[host], queue.waiting.contains(where: isOver) else { continue }
            removed += queue.waiting.filter(isOver)
            queue.waiting.removeAll(where: isOver)
            if queue.waiting.isEmpty, queue.hasTurn {
                queue.hasTurn = false
                turns.removeAll { $0 == host }
            }
            queues[host] = queue
            forget(host)
        }
        return removed
    }

    /// All waiting requests.
    var waiting: [Request] { queues.values.flatMap(\.waiting) }

    private mutating func giveTurn(_ host: Destination.Host) {
        guard let queue = queues[host], !queue.hasTurn, !queue.waiting.isEmpty, queue.inFlight < mostPerHost else {
            return
        }
        queues[host]?.hasTurn = true
        turns.append(host)
    }

    private mutating func forget(_ host: Destination.Host) {
        if let queue = queues[host], queue.inFlight == 0, queue.waiting.isEmpty { queues[host] = nil }
    }
}
