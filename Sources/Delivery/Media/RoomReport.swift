import Synchronization

/// The numbers of closed rooms and removed participants, by media server and outcome.
package struct RoomCounts: Sendable {
    package enum Outcome: String, Sendable, CaseIterable {
        case done
        /// The room or the participant did not exist.
        case gone
        /// An attempt failed.
        case failed
        /// The member had joined again.
        case skipped
        case givenUp
    }

    package private(set) var servers: [String: [Outcome: Int]] = [:]

    init(_ servers: [String]) { for server in servers { self.servers[server] = [:] } }

    mutating func add(_ outcome: Outcome, _ server: String, _ count: Int = 1) {
        servers[server, default: [:]][outcome, default: 0] += count
    }
}

/// The counts of a worker, for other threads.
package final class RoomReport: Sendable {
    private let state: Mutex<RoomCounts>

    init(_ counts: RoomCounts) { state = Mutex(counts) }

    package var counts: RoomCounts { state.withLock(\.self) }

    func update(_ counts: RoomCounts) { state.withLock { $0 = counts } }

    /// The counts in the Prometheus text format.
    package var metrics: String {
        let name = "bellwire_media_rooms_total"
        var text = "# HELP \(name) Rooms closed and participants removed at media servers, by outcome.\n"
        text += "# TYPE \(name) counter\n"
        for (server, counts) in counts.servers.sorted(by: { $0.key < $1.key }) {
            for outcome in RoomCounts.Outcome.allCases {
                text += "\(name){server=\"\(server)\",outcome=\"\(outcome.rawValue)\"} \(counts[outcome] ?? 0)\n"
            }
        }
        return text
    }
}
