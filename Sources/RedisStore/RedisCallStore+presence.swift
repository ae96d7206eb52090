import CallCore
import CallStore
import SignalingProtocol

/// Presence: for each user a hash of devices and a set of ended sessions.
extension RedisCallStore {
    /// Returns the devices of a user's hash in order, since Redis returns them in no order.
    func devices(of user: UserID, _ reply: RedisReply) throws(StoreError) -> [DevicePresence] {
        let devices = try reply.pairs().compactMap { presence(user, $0.name, $0.value) }
        return devices.count < 2 ? devices : devices.sorted { $0.device < $1.device }
    }

    /// Reads a device's entry, which is "online:since:seen:session". `online` is 0, 1, or 2 for an online device whose
    /// broker is known; the session is then "broker session".
    private func presence(_ user: UserID, _ name: RedisBytes, _ value: RedisBytes) -> DevicePresence? {
        var rest = value
        guard let online = rest.part(before: UInt8(ascii: ":")),
            let since = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let seen = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let device = name.text.flatMap(DeviceID.init)
        else { return nil }
        let broker = online.elementsEqual("2".utf8) ? rest.part(before: UInt8(ascii: " "))?.text : nil
        guard let session = rest.text else { return nil }
        return DevicePresence(
            device: DeviceAddress(userID: user, deviceID: device), session: session,
            isOnline: broker != nil || online.elementsEqual("1".utf8), since: since, seen: seen, broker: broker)
    }

    package func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) async throws(StoreError) -> [OnlineOutcome] {
        let bounds = [
            policy.lease, Milliseconds(policy.maxDevices),
            Milliseconds(policy.devicesKnown),
        ]
        let replies = try await runPresence(.online, sessions, bounds)
        var outcomes: [OnlineOutcome] = []
        for (session, reply) in zip(sessions, replies) {
            // The former session at another broker, "broker session"; otherwise 1, 0 for a session that is over, or 2
            // for a message that is late.
            if var former = reply.bytes, let broker = former.part(before: UInt8(ascii: " "))?.text,
                let id = former.text
            {
                outcomes.append(.current(takenOver: DeviceSession(session.device, id: id, broker: broker)))
            } else {
                switch try reply.number() {
                case 0: outcomes.append(.over)
                case 2: outcomes.append(.late)
                default: outcomes.append(.current())
                }
            }
        }
        let online = zip(sessions, outcomes).compactMap { session, outcome in
            if case .current = outcome { session.device } else { nil }
        }
        try list(online: online, at: try await now())
        return outcomes
    }

    package func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool] {
        let bounds = [policy.sessionMemory, Milliseconds(policy.sessionsRemembered), policy.lease]
        var ended: [Bool] = []
        for reply in try await runPresence(.offline, sessions, bounds) { ended.append(try reply.number() == 1) }
        try list(offline: zip(sessions, ended).filter { $1 }.map(\.0.device))
        return ended
    }

    package func renew(_ devices: [DeviceAddress]) async throws(StoreError) {
        let replies = try await runPresence(.renew, devices.map { DeviceSession($0, id: "") }, [lease])
        let online = zip(devices, replies).filter { $1.integer != 0 }.map(\.0)
        try list(online: online, at: try await now())
        let sessions = zip(devices, replies).compactMap { device, reply in
            reply.bytes.flatMap(\.text).map { DeviceSession(device, id: "", broker: $0) }
        }
        guard !sessions.isEmpty else { return }
        var pipeline = try session.pipeline()
        addListing(sessions, try await now(), to: &pipeline)
        _ = try await session.run(pipeline, isWrite: true)
    }

    /// Adds devices to the lists of their brokers.
    private func addListing(_ sessions: [DeviceSession], _ now: Milliseconds, to pipeline: inout RedisPipeline) {
        for session in sessions {
            guard let broker = session.broker else { continue }
            pipeline.command("ZADD", 3) {
                $0.add(devicesKey(broker))
                $0.add(now)
                $0.add(listed(session.device))
            }
        }
    }

    private func runPresence(
        _ script: RedisScript, _ sessions: [DeviceSession], _ bounds: [Milliseconds]
    ) async throws(StoreError) -> ArraySlice<RedisReply> {
        let keys =
            switch script {
            case .renew: ["presence"]
            case .online: ["presence", "over", "profile"]
            default: ["presence", "over"]
            }
        var pipeline = try self.session.pipeline()
        let now = try await now()
        let comparedTime = self.session.comparedTime
        if script == .online {
            // The lists of a broker's devices are written before the presence that names the broker.
            addListing(sessions, now, to: &pipeline)
            if !pipeline.commands.isEmpty { pipeline.beginStage() }
        }
        for session in sessions {
            // Only `online` looks at the time of the message.
            let hasTime = script == .online
            pipeline.script(script, keys: keys.count, arguments: 5 + bounds.count + (hasTime ? 1 : 0)) {
                for name in keys { $0.add(key(session.device.userID, name)) }
                $0.add(session.device.deviceID.string)
                $0.add(session.id)
                $0.add(now)
                for bound in bounds { $0.add(bound) }
                if hasTime { if let received = session.received { $0.add(received) } else { $0.add("") } }
                $0.add(session.broker ?? "")
                $0.add(comparedTime)
            }
        }
        return try await self.session.run(pipeline, isWrite: true).suffix(sessions.count)
    }
}
