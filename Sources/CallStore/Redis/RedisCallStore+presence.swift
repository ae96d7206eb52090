import CallCore
import SignalingProtocol

/// Devices coming and going: one hash of devices and one set of sessions that are over per user.
extension RedisCallStore {
    /// From a user's hash of devices, which Redis gives in no order.
    func devices(of user: UserID, _ reply: RedisReply) throws(StoreError) -> [DevicePresence] {
        let devices = try reply.pairs().compactMap { presence(user, $0.name, $0.value) }
        return devices.count < 2 ? devices : devices.sorted { $0.device < $1.device }
    }

    /// A device's entry is "online:since:seen:session".
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

    public func cameOnline(
        _ device: DeviceAddress, session sessionID: String, policy: PresencePolicy
    ) throws(StoreError) -> OnlineOutcome {
        let words = [
            device.deviceID.string, sessionID, String(policy.lease), String(policy.maxDevices),
            String(policy.maxDevices * MemoryCallStore.devicesKnownPerOnline),
        ]
        return try runPresence(.online, device.userID, words) == 1 ? .current : .over
    }

    public func wentOffline(
        _ device: DeviceAddress, session sessionID: String, policy: PresencePolicy
    ) throws(StoreError) -> Bool {
        let words = [
            device.deviceID.string, sessionID, String(policy.sessionMemory), String(MemoryCallStore.sessionsRemembered),
            String(policy.lease),
        ]
        return try runPresence(.offline, device.userID, words) == 1
    }

    public func renew(_ devices: [DeviceAddress]) throws(StoreError) {
        for device in devices { _ = try runPresence(.renew, device.userID, [device.deviceID.string, String(lease)]) }
    }

    private func runPresence(_ script: RedisScript, _ user: UserID, _ words: [String]) throws(StoreError) -> Int64 {
        let keys =
            switch script {
            case .renew: ["presence"]
            case .online: ["presence", "over", "profile"]
            default: ["presence", "over"]
            }
        var pipeline = try session.pipeline()
        pipeline.script(script, keys: keys.count, arguments: words.count) {
            for name in keys { $0.add(key(user, name)) }
            for word in words { $0.add(word) }
        }
        return try session.run(pipeline, isWrite: true)[0].number()
    }
}
