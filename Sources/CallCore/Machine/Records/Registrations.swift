import SignalingProtocol

/// Where devices are reached while they sleep: the rule to which every store is held. `now` is the store's time.
package struct Registrations: Equatable, Sendable {
    private var kept: [PushRegistration.Key: PushRegistration] = [:]

    package init() {}

    /// Makes a registration, or makes it anew: those of other devices for its target end. Beyond the limits, the app that the device registered
    /// longest ago goes, and the user's device that registered longest ago. Returns those of the device.
    package mutating func register(_ registration: PushRegistration, now: Milliseconds) -> [PushRegistration] {
        clean(now: now)
        let key = registration.key
        remove(kept.values.filter { $0.digest == registration.digest && $0.device != key.device }.map(\.key))
        kept[key] = PushRegistration(key, target: registration.target, digest: registration.digest, since: now)
        let ofDevice = kept.values.filter { $0.device == key.device }
        remove(Self.excess(of: ofDevice, by: \.key.app, most: PushLimits.appsPerDevice, besides: key.app))
        let ofUser = kept.values.filter { $0.device.userID == key.device.userID }
        remove(Self.excess(of: ofUser, by: \.key.device, most: PushLimits.devicesPerUser, besides: key.device))
        return registrations(of: key.device, now: now)
    }

    /// All of the groups that are beyond `most`: those go whose newest registration is the oldest, but for the group of the one that was just
    /// made.
    private static func excess<Group: Hashable & Comparable>(
        of registrations: [PushRegistration], by group: KeyPath<PushRegistration, Group>, most: Int, besides own: Group
    ) -> [PushRegistration.Key] {
        let groups = Dictionary(grouping: registrations) { $0[keyPath: group] }
        let others = groups.filter { $0.key != own }.map { (newest: $0.value.map(\.since).max() ?? 0, group: $0.key) }
        let gone = others.sorted { ($0.newest, $0.group) < ($1.newest, $1.group) }.prefix(max(0, groups.count - most))
        return gone.flatMap { groups[$0.group] ?? [] }.map(\.key)
    }

    /// Ends registrations of a device; nil: of all its platforms, or apps. Returns those that are left.
    package mutating func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?, now: Milliseconds
    ) -> [PushRegistration] {
        remove(
            kept.keys.filter { key in
                key.device == device && key.platform == platform ?? key.platform && key.app == app ?? key.app
            })
        return registrations(of: device, now: now)
    }

    /// Ends a registration unless it was made anew.
    package mutating func end(_ registration: PushRegistration) {
        guard let known = kept[registration.key], known.since == registration.since,
            known.digest == registration.digest
        else { return }
        kept[registration.key] = nil
    }

    /// All that are the user's, in the order of their keys.
    package func registrations(of user: UserID, now: Milliseconds) -> [PushRegistration] {
        kept.values.filter { $0.device.userID == user && Self.lasts($0, now) }.sorted { $0.key < $1.key }
    }

    private func registrations(of device: DeviceAddress, now: Milliseconds) -> [PushRegistration] {
        registrations(of: device.userID, now: now).filter { $0.device == device }
    }

    package mutating func erase(_ user: UserID) { remove(kept.keys.filter { $0.device.userID == user }) }

    /// Those that were not made anew for too long end.
    package mutating func clean(now: Milliseconds) {
        remove(kept.values.filter { !Self.lasts($0, now) }.map(\.key))
    }

    private static func lasts(_ registration: PushRegistration, _ now: Milliseconds) -> Bool {
        registration.since + PushLimits.registrationLife > now
    }

    private mutating func remove(_ keys: [PushRegistration.Key]) { for key in keys { kept[key] = nil } }

    /// What tells two of these apart, one text for each registration.
    package var traits: [String] { kept.values.map { "registered \($0.key) \($0.digest) \($0.since)" } }
}
