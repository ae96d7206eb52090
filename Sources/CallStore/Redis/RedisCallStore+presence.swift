import CallCore
import SignalingProtocol

/// Devices coming and going: one hash of devices and one set of sessions that are over per user.
extension RedisCallStore {
    /// From the fields of a user's presence, which Redis gives in no order.
    func devices(of user: UserID, _ fields: [(name: [UInt8], value: [UInt8])]) -> [DevicePresence] {
        fields.compactMap { presence(user, $0.name, $0.value) }.sorted { $0.device < $1.device }
    }

    private func presence(_ user: UserID, _ name: [UInt8], _ value: [UInt8]) -> DevicePresence? {
        let parts = value.split(separator: UInt8(ascii: ":"), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, let device = DeviceID(String(decoding: name, as: UTF8.self)),
            let since = StoredNumber.time(parts[1]), let seen = StoredNumber.time(parts[2]),
            let session = String(validating: parts[3], as: UTF8.self)
        else { return nil }
        return DevicePresence(
            device: DeviceAddress(userID: user, deviceID: device), session: session,
            isOnline: parts[0].elementsEqual("1".utf8), since: since, seen: seen)
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
        let call = RedisSession.ScriptCall(
            script: script, keys: keys.map { key(user, $0) }, arguments: words.map { Array($0.utf8) })
        return try session.run([.script(call)], isWrite: true)[0].number()
    }
}
