import CallCore
import SignalingProtocol

/// The servers of a simulated Redis Cluster. Each key belongs to a server; servers have different speeds, fail over and
/// hand over their slots, each on its own.
struct SimulatedCluster {
    /// The number of servers, at least 2.
    let servers: Int
    /// The longest extra time of an operation at the slowest server, compared with the fastest server, in milliseconds.
    let slowness: Milliseconds
    /// The servers that are away, until a replica takes over.
    private(set) var away: Set<Int> = []
    /// The ends of moves: while the slots of a server are moved, its operations wait.
    private var moves: [Int: Milliseconds] = [:]

    init(servers: Int, slowness: Milliseconds) {
        self.servers = servers
        self.slowness = slowness
    }

    /// The server whose clock is the store's.
    var clock: Int { server(ofTag: "p0") }

    func server(of id: RecordID) -> Int { server(ofTag: id.string) }
    func server(of user: UserID) -> Int { server(ofTag: "u:\(user)") }

    /// Claims of a user are at the user's server, claims of a pair at the pair's.
    func server(of claim: Claim) -> Int {
        switch claim {
        case .activeCall(let user): return server(of: user)
        case .ringing(let from, let to):
            return server(ofTag: from < to ? "pair:\(from):\(to)" : "pair:\(to):\(from)")
        }
    }

    func server(of query: Query) -> Int {
        switch query {
        case .record(let id): server(of: id)
        case .devices(let user), .profile(let user), .registration(let user): server(of: user)
        case .holder(let claim): server(of: claim)
        case .block(let block): server(of: block.user)
        case .calls(let list): server(of: list.user)
        case .messages(let list): server(of: list.user)
        case .outstanding(let count): server(of: count.user)
        case .storedBytes(let stored): server(of: stored.user)
        }
    }

    private func server(ofTag tag: String) -> Int { Int(stableHash(tag.utf8) % UInt64(servers)) }

    /// Returns the longest extra time of an operation at this server, compared with the fastest server.
    func delay(at server: Int) -> Milliseconds { slowness * Milliseconds(server) / Milliseconds(servers - 1) }

    mutating func leave(_ server: Int) { away.insert(server) }
    mutating func comeBack(_ server: Int) { away.remove(server) }
    mutating func move(_ server: Int, until end: Milliseconds) { moves[server] = max(moves[server] ?? 0, end) }

    /// The end of the move of a server's slots.
    func moveEnd(at server: Int) -> Milliseconds { moves[server] ?? 0 }
}
