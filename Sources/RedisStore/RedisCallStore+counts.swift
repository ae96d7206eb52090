import CallCore
import CallStore
import SignalingProtocol

/// The counts of what is live. Each partition has two sorted sets: the live calls with the numbers of their pending
/// invitations, which a commit writes with the record, and devices that are online with the times of their last signs of
/// life.
extension RedisCallStore {
    package func liveCounts() async throws(StoreError) -> LiveCounts {
        var counts = LiveCounts()
        let now = try await now()
        let partitions = Array(0..<Bounds.partitions)
        var pipeline = try session.pipeline()
        for partition in partitions {
            pipeline.command("ZCARD", 1) { $0.add(liveKey(inPartition: partition)) }
            pipeline.command("ZCOUNT", 3) {
                $0.add(onlineKey(inPartition: partition))
                $0.add("(\(now - lease)")
                $0.add("+inf")
            }
        }
        for (place, reply) in try await session.run(pipeline).enumerated() {
            let count = Int(try reply.number())
            if place % 2 == 0 { counts.calls += count } else { counts.devices += count }
        }
        counts.ringing = try await pendingInvitations(in: partitions)
        try await forgetOver(in: .random(in: partitions.indices), now)
        return counts
    }

    /// Counts the pending invitations: the calls with at least one, and the calls with at least two, and so on.
    private func pendingInvitations(in all: [Int]) async throws(StoreError) -> Int {
        var (partitions, least, sum) = (all, 0, 0)
        while !partitions.isEmpty {
            least += 1
            var pipeline = try session.pipeline()
            for partition in partitions {
                pipeline.command("ZCOUNT", 3) {
                    $0.add(liveKey(inPartition: partition))
                    $0.add(Int64(least))
                    $0.add("+inf")
                }
            }
            var rest: [Int] = []
            for (partition, reply) in zip(partitions, try await session.run(pipeline)) {
                let count = Int(try reply.number())
                sum += count
                if count > 0 { rest.append(partition) }
            }
            partitions = rest
        }
        return sum
    }

    /// Checks a few of a partition's live calls, and removes entries of calls that are over: a coordinator of an older
    /// version ends calls without looking at the entries. Also removes devices whose presence has expired.
    private func forgetOver(in partition: Int, _ now: Milliseconds) async throws(StoreError) {
        let live = liveKey(inPartition: partition)
        let online = onlineKey(inPartition: partition)
        var pipeline = try session.pipeline()
        pipeline.command("ZRANDMEMBER", 2) {
            $0.add(live)
            $0.add(Bounds.liveSample)
        }
        let ids = try await session.run(pipeline)[0].values().compactMap(\.text)
        pipeline = try session.pipeline()
        for id in ids {
            pipeline.script(.forgetOver, keys: 2, arguments: 1) {
                $0.add(key(in: partition, "call:", id))
                $0.add(live)
                $0.add(id)
            }
        }
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(online)
            $0.add("-inf")
            $0.add(now - lease)
        }
        pipeline.command("PEXPIRE", 2) {
            $0.add(online)
            $0.add(lease)
        }
        try session.post(pipeline) { _ in }
    }

    /// No request waits for the lists.
    func list(online devices: [DeviceAddress], at now: Milliseconds) throws(StoreError) {
        guard !devices.isEmpty else { return }
        var pipeline = try session.pipeline()
        for device in devices {
            pipeline.command("ZADD", 3) {
                $0.add(onlineKey(device.userID))
                $0.add(now)
                $0.add(listed(device))
            }
        }
        try session.post(pipeline) { _ in }
    }

    func list(offline devices: [DeviceAddress]) throws(StoreError) {
        guard !devices.isEmpty else { return }
        var pipeline = try session.pipeline()
        for device in devices {
            pipeline.command("ZREM", 2) {
                $0.add(onlineKey(device.userID))
                $0.add(listed(device))
            }
        }
        try session.post(pipeline) { _ in }
    }
}
