import CallStore

/// The master of each hash slot, as a server of the cluster tells it.
struct RedisClusterMap: Equatable {
    /// The masters. A slot names its master by the place in this array.
    private(set) var masters: [RedisAddress.Server] = []
    private var owners = [UInt16](repeating: Self.nobody, count: RedisSlot.count)
    /// The number of slots of each master.
    private var slots: [Int] = []

    private static let nobody = UInt16.max
    /// The greatest number of masters: a reply with more is refused.
    private static let most = 1_024

    static var question: RedisPipeline {
        var pipeline = RedisPipeline()
        pipeline.command("CLUSTER", 1) { $0.add("SLOTS") }
        return pipeline
    }

    /// Reads a reply to `CLUSTER SLOTS`: for each range of slots its begin, its end, and its servers, the master first.
    /// - Parameter server: the server that answered, whose host stands for an empty host.
    init(_ reply: RedisReply, of server: RedisAddress.Server) throws(StoreError) {
        if let message = reply.error { throw StoreError(.failed, "\(server): \(message)") }
        guard let ranges = reply.array else { throw reply.unexpected }
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer.flatMap(RedisSlot.init),
                let last = parts[1].integer.flatMap(RedisSlot.init), first.number <= last.number,
                let master = parts[2].array, master.count >= 2, let port = master[1].integer,
                (1...65535).contains(port)
            else { throw reply.unexpected }
            let host = master[0].bytes?.text ?? ""
            guard host != "?" else { throw StoreError(.failed, "\(server): a master has no known host name") }
            let number = try number(of: .init(host: host.isEmpty ? server.host : host, port: Int(port)))
            for slot in first.number...last.number {
                guard owners[slot] == Self.nobody else { throw reply.unexpected }
                owners[slot] = number
            }
            slots[Int(number)] += last.number - first.number + 1
        }
    }

    private mutating func number(of server: RedisAddress.Server) throws(StoreError) -> UInt16 {
        if let place = masters.firstIndex(of: server) { return UInt16(place) }
        guard masters.count < Self.most else { throw StoreError(.failed, "more than \(Self.most) masters") }
        masters.append(server)
        slots.append(0)
        return UInt16(masters.count - 1)
    }

    /// The number of slots that have no master.
    var uncovered: Int { owners.count { $0 == Self.nobody } }

    /// The master of a slot; nil for a slot that no server serves.
    func master(of slot: RedisSlot) -> RedisAddress.Server? {
        let owner = owners[slot.number]
        return owner == Self.nobody ? nil : masters[Int(owner)]
    }

    /// Whether a master has slots.
    func serves(_ server: RedisAddress.Server) -> Bool {
        masters.firstIndex(of: server).map { slots[$0] > 0 } ?? false
    }

    /// Notes that a slot has another master.
    mutating func move(_ slot: RedisSlot, to server: RedisAddress.Server) throws(StoreError) {
        let former = owners[slot.number]
        let number = try number(of: server)
        if former != Self.nobody { slots[Int(former)] -= 1 }
        owners[slot.number] = number
        slots[Int(number)] += 1
    }
}

/// The order of a cluster to send a command again, to the same server or to another. The server has not done the
/// command.
enum RedisRedirection: Equatable {
    /// The slot has another master, from now on.
    case moved(RedisSlot, RedisAddress.Server)
    /// The key is at another server, which takes this command alone.
    case ask(RedisAddress.Server)
    /// The slot is being moved, and its keys are at two servers now.
    case tryAgain
    /// The server knows no master of the slot, or sees too few masters. This lasts some milliseconds while a replica is
    /// promoted, or else until the missing master is back.
    case clusterDown
    /// The server does not know the script.
    case loadScripts

    /// - Parameter server: the server that answered, whose host stands for an empty host.
    init?(_ reply: RedisReply, of server: RedisAddress.Server) {
        guard let error = reply.error else { return nil }
        let words = error.split(separator: " ")
        switch words.first {
        case "MOVED":
            guard words.count == 3, let slot = Int64(words[1]).flatMap(RedisSlot.init),
                let target = Self.server(words[2], server)
            else { return nil }
            self = .moved(slot, target)
        case "ASK":
            guard words.count == 3, let target = Self.server(words[2], server) else { return nil }
            self = .ask(target)
        case "TRYAGAIN": self = .tryAgain
        case "CLUSTERDOWN": self = .clusterDown
        case "NOSCRIPT": self = .loadScripts
        default: return nil
        }
    }

    /// Reads `host:port`. An IPv6 address stands without brackets.
    private static func server(_ text: Substring, _ server: RedisAddress.Server) -> RedisAddress.Server? {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        let host = String(text[..<colon])
        return .init(host: host.isEmpty ? server.host : host, port: port)
    }
}
