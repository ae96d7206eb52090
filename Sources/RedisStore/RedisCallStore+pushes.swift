import CallCore
import CallStore
import SignalingProtocol

/// The queue of pushes: two keys per partition beside the keys of the calls, so that a call is entered with its commit.
extension RedisCallStore: PushStore {
    /// The life of the holders' key when no worker comes again, in milliseconds.
    private static let holdersLife: Milliseconds = 2 * PushLimits.missedLife

    /// The keys of a partition.
    struct PushKeys {
        /// The calls that wait, by due time.
        let due: [UInt8]
        /// The worker that holds each call: "marked:worker".
        let holders: [UInt8]

        fileprivate init(_ partition: [UInt8]) {
            due = partition + "push:due".utf8
            holders = partition + "push:holders".utf8
        }
    }

    func pushes(in partition: Int) -> PushKeys { PushKeys(prefix(ofPartition: partition)) }

    private static var allPartitions: [Int] { Array(0..<Bounds.partitions) }

    package func takePushes(
        by worker: WorkerID, limit: Int, near: [CallID]?
    ) async throws(StoreError) -> [CallID] {
        let partitions = near.map { Set($0.map { partition(of: .call($0)) }).sorted() } ?? Self.allPartitions
        guard limit > 0, !partitions.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        for partition in partitions {
            let keys = pushes(in: partition)
            pipeline.script(.takePushes, keys: 3, arguments: 4) {
                $0.add(keys.due)
                $0.add(keys.holders)
                $0.add(lease(of: worker, in: partition))
                $0.add(worker.string)
                $0.add(Int64(1 + limit / partitions.count))
                $0.add(WorkerLease.life)
                $0.add(Self.holdersLife)
            }
        }
        var calls: [CallID] = []
        for (partition, reply) in zip(partitions, try await session.run(pipeline, isWrite: true)) {
            let taken = try reply.values().compactMap { $0.text.flatMap(CallID.init) }
            if !taken.isEmpty { held(partition, by: worker) }
            calls += taken
        }
        return calls
    }

    package func settlePushes(
        _ settlements: [PushSettlement], by worker: WorkerID
    ) async throws(StoreError) -> [PushSettled] {
        guard !settlements.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        for settlement in settlements {
            let partition = partition(of: .call(settlement.callID))
            let keys = pushes(in: partition)
            pipeline.script(.settlePush, keys: 3, arguments: 3) {
                $0.add(keys.due)
                $0.add(keys.holders)
                $0.add(lease(of: worker, in: partition))
                $0.add(worker.string)
                $0.add(settlement.callID.string)
                if let delay = settlement.again { $0.add(delay) } else { $0.add("") }
            }
        }
        var settled: [PushSettled] = []
        for reply in try await session.run(pipeline, isWrite: true) {
            switch try reply.number() {
            case 0: settled.append(.void)
            case 1: settled.append(.done)
            default: settled.append(.again)
            }
        }
        return settled
    }

    package func recoverPushes() async throws(StoreError) -> Int {
        var reading = try session.pipeline()
        for partition in Self.allPartitions {
            reading.command("HVALS", 1) { $0.add(pushes(in: partition).holders) }
        }
        var pipeline = try session.pipeline()
        for (partition, reply) in zip(Self.allPartitions, try await session.run(reading)) {
            let keys = pushes(in: partition)
            for holder in Set(try reply.values().compactMap { $0.text?.dropFirst(2) }) {
                pipeline.script(.freePushes, keys: 3, arguments: 1) {
                    $0.add(keys.due)
                    $0.add(keys.holders)
                    $0.add(lease(of: WorkerID(String(holder)), in: partition))
                    $0.add(String(holder))
                }
            }
        }
        guard !pipeline.commands.isEmpty else { return 0 }
        var count: Int64 = 0
        for reply in try await session.run(pipeline, isWrite: true) { count += try reply.number() }
        return Int(count)
    }

    // MARK: Bounds

    private struct Count {
        let waiting: Int
        let held: Int
        /// The earliest due time, by Redis's own clock.
        let due: Milliseconds?
    }

    /// The bound on the number that a partition's reply may claim, so that sums do not overflow.
    private static let mostCounted: Int64 = 1 << 24

    private func counts() async throws(StoreError) -> [Count] {
        var pipeline = try session.pipeline()
        for partition in Self.allPartitions {
            let keys = pushes(in: partition)
            pipeline.command("ZCARD", 1) { $0.add(keys.due) }
            pipeline.command("HLEN", 1) { $0.add(keys.holders) }
            pipeline.command("ZRANGE", 4) {
                $0.add(keys.due)
                $0.add(0)
                $0.add(0)
                $0.add("WITHSCORES")
            }
        }
        let replies = try await session.run(pipeline)
        func number(_ place: Int) throws(StoreError) -> Int {
            Int(min(max(0, try replies[place].number()), Self.mostCounted))
        }
        var counts: [Count] = []
        for partition in Self.allPartitions {
            counts.append(
                Count(
                    waiting: try number(3 * partition), held: try number(3 * partition + 1),
                    due: try replies[3 * partition + 2].pairs().first.map { StoredNumber.time(ofScore: $0.value) }))
        }
        return counts
    }

    package func countPushes() async throws(StoreError) -> (calls: Int, oldest: Milliseconds?) {
        let now = session.raw(try await now())
        let counts = try await counts()
        let oldest = counts.compactMap(\.due).min().flatMap { $0 <= now ? $0 + session.shared.correction : nil }
        return (counts.reduce(0) { $0 + $1.waiting + $1.held }, oldest)
    }

    /// Bounds the queue to `most` calls. Each partition gives up its share of the excess.
    package func boundPushes(most: Int) async throws(StoreError) -> Int {
        let missed = session.raw(try await now()) - PushLimits.missedLife
        let counts = try await counts()
        let (sum, waiting) = counts.reduce((0, 0)) { ($0.0 + $1.waiting + $1.held, $0.1 + $1.waiting) }
        let excess = sum - most
        var pipeline = try session.pipeline()
        for (partition, count) in counts.enumerated() where count.waiting > 0 {
            let due = pushes(in: partition).due
            if let first = count.due, first <= missed {
                pipeline.command("ZREMRANGEBYSCORE", 3) {
                    $0.add(due)
                    $0.add("-inf")
                    $0.add(missed)
                }
            }
            guard excess > 0 else { continue }
            let share = (excess * count.waiting + waiting - 1) / waiting
            pipeline.command("ZREMRANGEBYRANK", 3) {
                $0.add(due)
                $0.add(0)
                $0.add(Int64(share - 1))
            }
        }
        guard !pipeline.commands.isEmpty else { return 0 }
        var count: Int64 = 0
        for reply in try await session.run(pipeline, isWrite: true) { count += try reply.number() }
        return Int(count)
    }

    // MARK: Reservations

    package func reserve(_ pushes: [PushReservation]) async throws(StoreError) -> [Bool] {
        guard !pushes.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        for push in pushes {
            pipeline.script(.reservePush, keys: 1, arguments: 5) {
                $0.add(key(push.device.userID, "pushes:\(push.device.deviceID)"))
                $0.add(push.id)
                $0.add(push.inviter.string)
                $0.add(PushLimits.window)
                $0.add(Int64(PushLimits.perDevice))
                $0.add(Int64(PushLimits.perInviter))
            }
        }
        var reserved: [Bool] = []
        for reply in try await session.run(pipeline, isWrite: true) { reserved.append(try reply.number() == 1) }
        return reserved
    }

    // MARK: Beside a call

    /// Appends the field and the value of a push's state to the arguments of a Redis command (`RedisWords`). The field
    /// is "p", the app, the platform, the device, the user, with slashes between; the value is
    /// "invitation:ring:stop:missed", with `ring` as in `PushState.ringText`.
    func add(_ push: PushState, to words: inout RedisWords) {
        let key = push.key
        words.add("p", "\(key.app)/\(key.platform.rawValue)/\(key.device.deviceID)", "/", key.device.userID.string)
        words.add(
            "\(push.invitation):\(push.ringText ?? ""):\(push.stop?.rawValue ?? ""):\(push.missed?.rawValue ?? "")")
    }

    func push(_ names: RedisBytes, _ value: RedisBytes) -> PushState? {
        var rest = names
        guard let app = rest.part(before: UInt8(ascii: "/"))?.text.flatMap(AppName.init),
            let platform = rest.part(before: UInt8(ascii: "/"))?.text.flatMap(PushPlatform.init(rawValue:)),
            let device = device(rest), let text = value.text
        else { return nil }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, let invitation = StoredNumber.time(Array(parts[0].utf8)).map(Int.init) else {
            return nil
        }
        return PushState(
            PushRegistration.Key(device, app, platform), invitation: invitation, ringText: parts[1],
            stop: PushState.Phase(rawValue: parts[2]), missed: PushState.Phase(rawValue: parts[3]))
    }

    /// Appends the field and the value of a ring check to the arguments of a Redis command. The field is "c", the
    /// device, "/", the user; the value is the invitation.
    func add(_ check: RingCheck, to words: inout RedisWords) {
        words.add("c", check.device.deviceID.string, "/", check.device.userID.string)
        words.add(Int64(check.invitation))
    }

    func check(_ names: RedisBytes, _ value: RedisBytes) -> RingCheck? {
        guard let device = device(names), let invitation = StoredNumber.time(value) else { return nil }
        return RingCheck(device: device, invitation: Int(invitation))
    }
}
