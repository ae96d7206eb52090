import CallStore
import SignalingProtocol
import Support

/// A connection for a command that reads or writes all keys of a deployment. Unlike `RedisSession`, it writes nothing
/// by itself, and waits longer for each reply.
struct RedisVisit {
    private enum Bounds {
        /// The bound on connecting and on each reply, in milliseconds.
        static let timeout = 10_000
        /// The number of keys that Redis looks at in one step of a scan, so that other clients do not wait.
        static let scanned: Int64 = 256
    }

    let address: RedisAddress
    let prefix: String
    let link: any RedisLink

    init(_ address: RedisAddress, prefix: String) throws(StoreError) {
        self.address = address
        self.prefix = prefix
        if address.cluster != nil {
            link = try RedisCluster(address, known: [], timeout: Bounds.timeout) { _ throws(StoreError) in }
        } else if let sentinel = RedisSentinel(address) {
            link = try sentinel.connect(timeout: Bounds.timeout, now: SystemClock.boot.milliseconds)
        } else {
            link = try RedisConnection(address, timeout: Bounds.timeout)
        }
    }

    func key(_ rest: String) -> [UInt8] { Array("\(prefix):\(rest)".utf8) }

    /// Runs commands. The first error among the replies is thrown.
    func run(_ pipeline: RedisPipeline, at server: RedisConnection? = nil) throws(StoreError) -> [RedisReply] {
        let receiver: any RedisLink = server ?? link
        let replies = try receiver.run(pipeline)
        for reply in replies {
            guard let message = reply.error else { continue }
            switch RedisRedirection(reply, of: .init(host: address.host, port: address.port)) {
            case .moved, .ask, .tryAgain:
                throw StoreError(.unsettled, "\(address): the cluster moves slots now: begin again when it is done")
            case .clusterDown, .loadScripts, nil: throw StoreError(.failed, "\(address): \(message)")
            }
        }
        return replies
    }

    /// Returns the value of a key, or nil when the key does not exist.
    func value(_ rest: String) throws(StoreError) -> RedisBytes? {
        var pipeline = RedisPipeline()
        pipeline.command("GET", 1) { $0.add(key(rest)) }
        return try run(pipeline)[0].value()
    }

    /// Returns the servers of all slots in a cluster; nil elsewhere.
    func slotMap() throws(StoreError) -> RedisClusterMap? {
        guard address.cluster != nil, let server = link.servers.first else { return nil }
        return try RedisClusterMap(
            run(RedisClusterMap.question, at: server)[0], of: .init(host: address.host, port: address.port))
    }

    /// Passes all keys of a server to `body`, without the prefix, in steps. A key may come twice.
    func scan(_ server: RedisConnection, _ body: ([[UInt8]]) throws(StoreError) -> Void) throws(StoreError) {
        let skipped = prefix.utf8.count + 1
        var cursor = "0"
        repeat {
            var pipeline = RedisPipeline()
            pipeline.command("SCAN", 5) {
                $0.add(cursor)
                $0.add("MATCH")
                $0.add("\(prefix):*")
                $0.add("COUNT")
                $0.add(Bounds.scanned)
            }
            let reply = try run(pipeline, at: server)[0]
            guard let parts = reply.array, parts.count == 2, let next = try parts[0].value()?.text else {
                throw reply.unexpected
            }
            cursor = next
            try body(try parts[1].values().map { Array($0.dropFirst(skipped)) })
        } while cursor != "0"
    }
}
