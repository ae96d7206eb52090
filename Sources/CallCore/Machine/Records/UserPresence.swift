import SignalingProtocol

/// The model of the presence of a user's devices (docs/protocol.md, section 1): the rules that every store must follow.
/// The store in memory uses this type. The scripts of `RedisScript` (`onlineBody`, `offlineBody`) and
/// `SQLiteCallStore+presence.swift` repeat its rules.
///
/// `now` is the store's time and must not go back.
package struct UserPresence: Equatable, Sendable {
    /// The devices, in the order of their ids.
    package private(set) var devices: [DevicePresence] = []
    /// The ended sessions, the oldest first.
    private var over: [OverSession] = []

    private struct OverSession: Equatable, Sendable {
        let device: DeviceAddress
        let session: String
        let until: Milliseconds

        func isOf(_ other: DeviceSession) -> Bool {
            device == other.device && session.utf8.elementsEqual(other.id.utf8)
        }
    }

    package init() {}

    /// Forgets the devices of a deleted user. Ended sessions stay remembered, so that a delayed `online: true` does not
    /// bring a device back.
    package mutating func forgetDevices() { devices = [] }

    /// Handles `online: true` of a device.
    package mutating func cameOnline(
        _ session: DeviceSession, _ policy: PresencePolicy, now: Milliseconds
    ) -> OnlineOutcome {
        if !session.id.isEmpty, over.contains(where: { $0.until > now && $0.isOf(session) }) { return .over }
        let known = devices.first { $0.device == session.device }
        if let known, known.makesLate(session) { return .late }
        // A device that was silent for longer than its expiry has gone offline and starts anew.
        let continues = known.map { $0.isReachable(at: now, lease: policy.lease) && $0.isSession(session) } ?? false
        devices.removeAll { $0.device == session.device || $0.seen + policy.lease <= now }
        makeRoom(policy)
        devices.append(
            DevicePresence(
                device: session.device, session: session.id, isOnline: true, since: continues ? known!.since : now,
                seen: now, broker: session.broker))
        devices.sort { $0.device < $1.device }
        return .current(takenOver: known?.session(takenOverBy: session, at: now, lease: policy.lease))
    }

    /// Makes room for another online device. The method removes the longest silent device, first among the online
    /// devices and then among the offline devices.
    private mutating func makeRoom(_ policy: PresencePolicy) {
        func forgetSilent(_ isOnline: Bool) -> Bool {
            let silent = devices.indices.filter { devices[$0].isOnline == isOnline }
                .min { (devices[$0].seen, devices[$0].device) < (devices[$1].seen, devices[$1].device) }
            if let silent { devices.remove(at: silent) }
            return silent != nil
        }
        while devices.count(where: \.isOnline) >= policy.maxDevices, forgetSilent(true) {}
        while devices.count >= policy.devicesKnown, forgetSilent(false) {}
    }

    /// Handles `online: false` or the will of a device. Returns whether the device's current session ended. The end of
    /// another session is only remembered, so that the other session cannot start later: for `sessionMemory` (2 min),
    /// of the last 64 sessions, by device and name. The current session ends only when its broker is the same or
    /// unknown.
    package mutating func wentOffline(_ session: DeviceSession, _ policy: PresencePolicy, now: Milliseconds) -> Bool {
        if !session.id.isEmpty {
            over.removeAll { $0.until <= now || $0.isOf(session) }
            over.append(
                OverSession(device: session.device, session: session.id, until: now + policy.sessionMemory))
            over.removeFirst(max(0, over.count - policy.sessionsRemembered))
        }
        guard let place = devices.firstIndex(where: { $0.device == session.device }),
            devices[place].isOnline, devices[place].isSession(session)
        else { return false }
        devices[place] = DevicePresence(
            device: session.device, session: session.id, isOnline: false, since: devices[place].since, seen: now)
        return true
    }

    /// Handles a sign of life of a device. A device beyond its expiry has gone offline, and only its presence message
    /// brings the device online.
    package mutating func renew(_ device: DeviceAddress, lease: Milliseconds, now: Milliseconds) {
        guard let place = devices.firstIndex(where: { $0.device == device && $0.isReachable(at: now, lease: lease) })
        else { return }
        devices[place] = DevicePresence(
            device: device, session: devices[place].session, isOnline: true, since: devices[place].since, seen: now,
            broker: devices[place].broker)
    }

    /// Forgets expired devices and sessions.
    package mutating func clean(lease: Milliseconds, now: Milliseconds) {
        devices.removeAll { $0.seen + lease <= now }
        over.removeAll { $0.until <= now }
    }

    package var isEmpty: Bool { devices.isEmpty && over.isEmpty }

    /// The content of the presence for comparison, in a fixed order.
    package var traits: [String] {
        devices.map { "\($0.device) \($0.session) \($0.isOnline) \($0.since) \($0.broker ?? "")" }
            + over.map { "\($0.device) \($0.session) over" }
    }
}
