import CallStore

/// The stamp of a deployment in Redis (`DeploymentStamp`). The stamp is checked with each new connection, since another
/// server, or an emptied server, may have taken the place of the stamped server.
struct RedisDeployment {
    private let key: String
    private var stamp: DeploymentStamp

    init(_ stamp: DeploymentStamp, prefix: String) {
        self.stamp = stamp
        key = "\(prefix):deployment"
    }

    mutating func check(_ connection: any RedisLink, _ address: RedisAddress) throws(StoreError) {
        let found = try stored(connection)
        let isMissing = try stamp.mustBeWritten(over: found, in: "\(address)")
        if isMissing { try write(connection, isTakenOver: found != nil) }
        // The store is taken over only once: two deployments must not take a store from each other for ever.
        stamp.takesOver = false
        guard isMissing else { return }
        // Another deployment may have written its stamp first.
        _ = try stamp.mustBeWritten(over: try stored(connection), in: "\(address)")
    }

    private func stored(_ connection: any RedisLink) throws(StoreError) -> [UInt8]? {
        var pipeline = RedisPipeline()
        pipeline.command("GET", 1) { $0.add(key) }
        return try connection.run(pipeline)[0].value().map { Array($0) }
    }

    private func write(_ connection: any RedisLink, isTakenOver: Bool) throws(StoreError) {
        var pipeline = RedisPipeline()
        pipeline.command("SET", isTakenOver ? 2 : 3) {
            $0.add(key)
            $0.add(stamp.topicRoot)
            if !isTakenOver { $0.add("NX") }
        }
        if let message = try connection.run(pipeline)[0].error {
            throw StoreError(.failed, "the store cannot be stamped with its topic root: \(message)")
        }
    }
}
