import CallCore
import CallStore
import SignalingProtocol

/// The counts of what is live. Each partition has two sorted sets: the live calls with the numbers of their pending
/// invitations, which a commit writes with the record, and devices that are online with the times of their last signs
/// of life.
extension RedisCallStore {
    package func liveCounts() async throws(StoreError) -> LiveCounts {
        var counts = LiveCounts()
        let now = try await now()
        var pipeline = try session.pipeline()
        for partition in 0..<Bounds.partitions {
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
        counts.ringing = try await pendingInvitations()
        return counts
    }

    /// Counts the pending invitations: the calls with at least one, and the calls with at least two, and so on. Most
    /// calls have few.
    private func pendingInvitations() async throws(StoreError) -> Int {
        var partitions = Array(0..<Bounds.partitions)
        var (counted, sum) = (0, 0)
        while !partitions.isEmpty {
            var pipeline = try session.pipeline()
            let numbers = counted + 1...counted + Bounds.countsPerTrip
            for partition in partitions {
                for number in numbers {
                    pipeline.command("ZCOUNT", 3) {
                        $0.add(liveKey(inPartition: partition))
                        $0.add(Int64(number))
                        $0.add("+inf")
                    }
                }
            }
            let replies = try await session.run(pipeline)
            var rest: [Int] = []
            for (place, partition) in partitions.enumerated() {
                var last = 0
                for reply in replies[(place * numbers.count)..<((place + 1) * numbers.count)] {
                    last = Int(try reply.number())
                    sum += last
                }
                if last > 0 { rest.append(partition) }
            }
            partitions = rest
            counted += numbers.count
        }
        return sum
    }

    /// Checks some live calls of each partition: a coordinator of an older version ends calls without looking at the
    /// entries. Also removes devices whose presence has expired.
    package func tidyLiveCounts() async throws(StoreError) {
        let now = try await now()
        var pipeline = try session.pipeline()
        for partition in 0..<Bounds.partitions {
            pipeline.command("ZRANDMEMBER", 2) {
                $0.add(liveKey(inPartition: partition))
                $0.add(Bounds.liveSample)
            }
        }
        let samples = try await session.run(pipeline)
        pipeline = try session.pipeline()
        for (partition, sample) in samples.enumerated() {
            for id in try sample.values().compactMap(\.text) {
                pipeline.script(.forgetOver, keys: 2, arguments: 1) {
                    $0.add(key(in: partition, "call:", id))
                    $0.add(liveKey(inPartition: partition))
                    $0.add(id)
                }
            }
            pipeline.command("ZREMRANGEBYSCORE", 3) {
                $0.add(onlineKey(inPartition: partition))
                $0.add("-inf")
                $0.add(now - lease)
            }
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
            // The key ends when its last device has expired, also without coordinators.
            pipeline.command("PEXPIRE", 2) {
                $0.add(onlineKey(device.userID))
                $0.add(lease)
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
