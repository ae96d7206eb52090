import SignalingProtocol

/// The presence of one user's devices, and what changes it (docs/protocol.md, section 1): the rule to which every store is held.
///
/// `now` is the store's time. It must not go back.
package struct UserPresence: Equatable, Sendable {
    /// In the order of their ids.
    package private(set) var devices: [DevicePresence] = []
    /// The oldest first.
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

    /// The user was deleted. Sessions that are over stay so: a device does not come back by saying again what it said before.
    package mutating func forgetDevices() { devices = [] }

    /// The device published `online: true`.
    package mutating func cameOnline(
        _ session: DeviceSession, _ policy: PresencePolicy, now: Milliseconds
    ) -> OnlineOutcome {
        if !session.id.isEmpty, over.contains(where: { $0.until > now && $0.isOf(session) }) { return .over }
        let known = devices.first { $0.device == session.device }
        // Who was silent for longer than the lease has been offline, and comes anew.
        let continues = known.map { $0.isReachable(at: now, lease: policy.lease) && $0.isSession(session.id) } ?? false
        devices.removeAll { $0.device == session.device || $0.seen + policy.lease <= now }
        makeRoom(policy)
        devices.append(
            DevicePresence(
                device: session.device, session: session.id, isOnline: true, since: continues ? known!.since : now,
                seen: now))
        devices.sort { $0.device < $1.device }
        return .current
    }

    /// For one more that is online: of those that are, and of all that are known, the one silent longest goes.
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

    /// The device published `online: false`, or its will was published. Whether that ended its current session: the end of another one
    /// is remembered, so that it never begins, and changes nothing else.
    package mutating func wentOffline(_ session: DeviceSession, _ policy: PresencePolicy, now: Milliseconds) -> Bool {
        if !session.id.isEmpty {
            over.removeAll { $0.until <= now || $0.isOf(session) }
            over.append(
                OverSession(device: session.device, session: session.id, until: now + policy.sessionMemory))
            over.removeFirst(max(0, over.count - policy.sessionsRemembered))
        }
        guard let place = devices.firstIndex(where: { $0.device == session.device }),
            devices[place].isOnline, devices[place].isSession(session.id)
        else { return false }
        devices[place] = DevicePresence(
            device: session.device, session: session.id, isOnline: false, since: devices[place].since, seen: now)
        return true
    }

    /// The device sent something. One whose lease is over has gone offline: it comes online by its presence alone.
    package mutating func renew(_ device: DeviceAddress, lease: Milliseconds, now: Milliseconds) {
        guard let place = devices.firstIndex(where: { $0.device == device && $0.isReachable(at: now, lease: lease) })
        else { return }
        devices[place] = DevicePresence(
            device: device, session: devices[place].session, isOnline: true, since: devices[place].since, seen: now)
    }

    /// Forgets what is of no matter any more.
    package mutating func clean(lease: Milliseconds, now: Milliseconds) {
        devices.removeAll { $0.seen + lease <= now }
        over.removeAll { $0.until <= now }
    }

    package var isEmpty: Bool { devices.isEmpty && over.isEmpty }

    /// What tells two situations apart, in a certain order.
    package var traits: [String] {
        devices.map { "\($0.device) \($0.session) \($0.isOnline) \($0.since)" }
            + over.map { "\($0.device) \($0.session) over" }
    }
}
