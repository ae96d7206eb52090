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

    /// Reads a device's entry, which is "online:since:seen:session".
    private func presence(_ user: UserID, _ name: RedisBytes, _ value: RedisBytes) -> DevicePresence? {
        var rest = value
        guard let online = rest.part(before: UInt8(ascii: ":")),
            let since = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let seen = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let device = name.text.flatMap(DeviceID.init), let session = rest.text
        else { return nil }
        return DevicePresence(
            device: DeviceAddress(userID: user, deviceID: device), session: session,
            isOnline: online.elementsEqual("1".utf8), since: since, seen: seen)
    }

    package func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) async throws(StoreError) -> [OnlineOutcome] {
        let bounds = [
            policy.lease, Milliseconds(policy.maxDevices),
            Milliseconds(policy.devicesKnown),
        ]
        return try await runPresence(.online, sessions, bounds).map { $0 == 1 ? .current : .over }
    }

    package func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool] {
        let bounds = [policy.sessionMemory, Milliseconds(policy.sessionsRemembered), policy.lease]
        return try await runPresence(.offline, sessions, bounds).map { $0 == 1 }
    }

    package func renew(_ devices: [DeviceAddress]) async throws(StoreError) {
        _ = try await runPresence(.renew, devices.map { DeviceSession($0, id: "") }, [lease])
    }

    private func runPresence(
        _ script: RedisScript, _ sessions: [DeviceSession], _ bounds: [Milliseconds]
    ) async throws(StoreError) -> [Int64] {
        let keys =
            switch script {
            case .renew: ["presence"]
            case .online: ["presence", "over", "profile"]
            default: ["presence", "over"]
            }
        var pipeline = try session.pipeline()
        let now = try await now()
        for session in sessions {
            pipeline.script(script, keys: keys.count, arguments: 3 + bounds.count) {
                for name in keys { $0.add(key(session.device.userID, name)) }
                $0.add(session.device.deviceID.string)
                $0.add(session.id)
                $0.add(now)
                for bound in bounds { $0.add(bound) }
            }
        }
        var results: [Int64] = []
        for reply in try await session.run(pipeline, isWrite: true) { results.append(try reply.number()) }
        return results
    }
}
