import CallCore
import CallStore
import SignalingProtocol

/// Registrations for pushes. A user's registrations are a hash. Each target belongs to a device, its owner. The owner
/// is stored under the target's digest, and is written before the registration. A registration whose target has another
/// owner, or no owner, does not count.
extension RedisCallStore {
    /// An ended registration: its name, its begin, and the digest of its target.
    private struct Ended {
        let name: RedisBytes
        let since: RedisBytes
        let digest: RedisBytes
    }

    private func registrationsKey(_ user: UserID) -> RedisKey { key(user, "registrations") }

    /// Returns a registration's name among its user's registrations.
    private func name(_ key: PushRegistration.Key) -> String {
        "\(key.device.deviceID)/\(key.app)/\(key.platform.rawValue)"
    }

    /// Returns the text of a target's owner.
    private func owner(_ device: DeviceAddress) -> String { "\(device.deviceID)/\(device.userID)" }

    // MARK: The deployment

    package func pushPolicy() async throws(StoreError) -> KeptPushPolicy? {
        var pipeline = try session.pipeline()
        pipeline.command("HGET", 2) {
            $0.add(pushKey)
            $0.add("policy")
        }
        pipeline.command("ZRANGE", 4) {
            $0.add(pushProcessesKey)
            $0.add(-1)
            $0.add(-1)
            $0.add("WITHSCORES")
        }
        let replies = try await session.run(pipeline)
        guard let policy = try replies[0].value()?.text.flatMap({ PushPolicy($0) }) else { return nil }
        let until = try replies[1].pairs().first.map { StoredNumber.time(ofScore: $0.value) }
        return KeptPushPolicy(policy, until: until ?? 0)
    }

    package func keep(_ policy: PushPolicy) async throws(StoreError) {
        var pipeline = try session.pipeline()
        pipeline.command("HSET", 3) {
            $0.add(pushKey)
            $0.add("policy")
            $0.add(policy.text)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
    }

    /// Stores that the process pushes until `life` milliseconds from now. The score of a process is the time
    /// until which the process pushes.
    package func pushes(_ process: WorkerID, for life: Milliseconds) async throws(StoreError) {
        let now = try await now()
        var pipeline = try session.pipeline()
        pipeline.command("ZADD", 3) {
            $0.add(pushProcessesKey)
            $0.add(now + life)
            $0.add(process.string)
        }
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(pushProcessesKey)
            $0.add("-inf")
            $0.add(now - PushLimits.missedLife)
        }
        pipeline.command("PEXPIRE", 2) {
            $0.add(pushProcessesKey)
            $0.add(2 * PushLimits.missedLife)
        }
        for reply in try await session.run(pipeline, isWrite: true) { _ = try reply.number() }
    }

    package func pushSecret() async throws(StoreError) -> [UInt8] {
        var pipeline = try session.pipeline()
        pipeline.command("HSETNX", 3) {
            $0.add(pushKey)
            $0.add("secret")
            $0.add(PushSecret.make())
        }
        pipeline.command("HGET", 2) {
            $0.add(pushKey)
            $0.add("secret")
        }
        let reply = try await session.run(pipeline, isWrite: true)[1]
        guard let secret = try reply.value() else { throw reply.unexpected }
        return Array(secret)
    }

    // MARK: Registrations

    package func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration] {
        let (key, now) = (registration.key, try await now())
        let (user, name) = (key.device.userID, name(key))
        var owning = try session.pipeline()
        owning.script(.own, keys: 1, arguments: 4) {
            $0.add(tokenKey(registration.digest))
            $0.add(owner(key.device))
            $0.add(name)
            $0.add(now)
            $0.add(PushLimits.registrationLife)
        }
        let former = try await session.run(owning, isWrite: true)[0].values()
        var pipeline = try session.pipeline()
        pipeline.script(.register, keys: 1, arguments: 7) {
            $0.add(registrationsKey(user))
            addTimes(now, to: &$0)
            $0.add(name)
            $0.add("\(now):\(registration.digest):\(registration.target.text)")
            $0.add(Int64(PushLimits.appsPerDevice))
            $0.add(Int64(PushLimits.devicesPerUser))
            $0.add(session.comparedTime)
        }
        if let device = former.first.flatMap(device) {
            for name in former.dropFirst() {
                addEnd(of: Array(name), device.userID, registration.digest, since: "", now, to: &pipeline)
            }
        }
        try await disown(try await session.run(pipeline, isWrite: true)[0], of: user)
        return try await registrations(of: key.device)
    }

    private func addTimes(_ now: Milliseconds, to words: inout RedisWords) {
        words.add(now)
        words.add(PushLimits.registrationLife)
    }

    package func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration] {
        let now = try await now()
        var pipeline = try session.pipeline()
        pipeline.script(.unregister, keys: 1, arguments: 6) {
            $0.add(registrationsKey(device.userID))
            addTimes(now, to: &$0)
            $0.add(device.deviceID.string)
            $0.add(platform?.rawValue ?? "")
            $0.add(app?.string ?? "")
            $0.add(session.comparedTime)
        }
        try await disown(try await session.run(pipeline, isWrite: true)[0], of: device.userID)
        return try await registrations(of: device)
    }

    package func end(_ registration: PushRegistration) async throws(StoreError) {
        var pipeline = try session.pipeline()
        addEnd(
            of: Array(name(registration.key).utf8), registration.device.userID, registration.digest,
            since: String(registration.since), try await now(),
            to: &pipeline)
        try await disown(try await session.run(pipeline, isWrite: true)[0], of: registration.device.userID)
    }

    /// Adds the end of a registration; an empty `since` means any begin.
    private func addEnd(
        of name: [UInt8], _ user: UserID, _ digest: String, since: String, _ now: Milliseconds,
        to pipeline: inout RedisPipeline
    ) {
        pipeline.script(.endRegistration, keys: 1, arguments: 6) {
            $0.add(registrationsKey(user))
            addTimes(now, to: &$0)
            $0.add(name)
            $0.add(digest)
            $0.add(since)
            $0.add(session.comparedTime)
        }
    }

    /// Removes the target owners of the registrations that a script has ended, unless they were registered anew since.
    private func disown(_ reply: RedisReply, of user: UserID) async throws(StoreError) {
        let words = try reply.values()
        guard words.count >= 3 else { return }
        var pipeline = try session.pipeline()
        for place in stride(from: 0, to: words.count - 2, by: 3) {
            let ended = Ended(name: words[place], since: words[place + 1], digest: words[place + 2])
            addDisowning(ended, of: user, to: &pipeline)
        }
        for reply in try await session.run(pipeline, isWrite: true) { _ = try reply.number() }
    }

    private func addDisowning(_ ended: Ended, of user: UserID, to pipeline: inout RedisPipeline) {
        pipeline.script(.disown, keys: 1, arguments: 3) {
            $0.add(tokenKey(String(decoding: Array(ended.digest), as: UTF8.self)))
            // The registration's name begins with the device.
            $0.add(Array(ended.name.prefix { $0 != UInt8(ascii: "/") }) + [UInt8(ascii: "/")] + user.string.utf8)
            $0.add(Array(ended.name))
            $0.add(Array(ended.since))
        }
    }

    // MARK: Reading

    package func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]] {
        guard !users.isEmpty else { return [] }
        let since = try await now() - PushLimits.registrationLife
        var reading = try session.pipeline()
        for user in users { reading.command("HGETALL", 1) { $0.add(registrationsKey(user)) } }
        var found: [[PushRegistration]] = []
        for (user, reply) in zip(users, try await session.run(reading)) {
            let own = try reply.pairs().compactMap { registration($0.name, $0.value, of: user) }
            found.append(own.filter { $0.since > since }.sorted { $0.key < $1.key })
        }
        guard found.contains(where: { !$0.isEmpty }) else { return found }
        var owners = try session.pipeline()
        for registration in found.joined() {
            owners.command("HGET", 2) {
                $0.add(tokenKey(registration.digest))
                $0.add("owner")
            }
        }
        var replies = try await session.run(owners)[...]
        for place in found.indices {
            var own: [PushRegistration] = []
            for registration in found[place] {
                if try replies.removeFirst().value().flatMap(device) == registration.device { own.append(registration) }
            }
            found[place] = own
        }
        return found
    }

    private func registrations(of device: DeviceAddress) async throws(StoreError) -> [PushRegistration] {
        try await registrations(of: [device.userID])[0].filter { $0.device == device }
    }

    private func registration(_ name: RedisBytes, _ value: RedisBytes, of user: UserID) -> PushRegistration? {
        var (name, value) = (name, value)
        guard let device = name.part(before: UInt8(ascii: "/"))?.text.flatMap(DeviceID.init),
            let app = name.part(before: UInt8(ascii: "/"))?.text.flatMap(AppName.init),
            let platform = name.text.flatMap(PushPlatform.init(rawValue:)),
            let since = value.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let digest = value.part(before: UInt8(ascii: ":"))?.text,
            let target = value.text.flatMap({ PushTarget($0) })
        else { return nil }
        let key = PushRegistration.Key(DeviceAddress(userID: user, deviceID: device), app, platform)
        return PushRegistration(key, target: target, digest: digest, since: since)
    }

    /// Adds the query whether the user has registrations. The key is removed with the last registration.
    func addRegistered(_ user: UserID, to pipeline: inout RedisPipeline) {
        pipeline.command("EXISTS", 1) { $0.add(registrationsKey(user)) }
    }

    // MARK: Deleting a user

    func addRegistrations(of user: UserID, to pipeline: inout RedisPipeline) {
        pipeline.command("HGETALL", 1) { $0.add(registrationsKey(user)) }
    }

    /// Adds the removal of the owners' entries of the user's registrations in `reply`.
    func addDisowning(_ reply: RedisReply, of user: UserID, to pipeline: inout RedisPipeline) throws(StoreError) {
        for (name, value) in try reply.pairs() {
            var rest = value
            guard let since = rest.part(before: UInt8(ascii: ":")), let digest = rest.part(before: UInt8(ascii: ":"))
            else { continue }
            addDisowning(Ended(name: name, since: since, digest: digest), of: user, to: &pipeline)
        }
    }
}
