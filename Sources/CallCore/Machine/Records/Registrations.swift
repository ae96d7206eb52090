import SignalingProtocol

/// The model of push registrations: the rules that every store must follow. `now` is the store's time.
package struct Registrations: Equatable, Sendable {
    private var kept: [PushRegistration.Key: PushRegistration] = [:]

    package init() {}

    /// Adds or replaces a registration. The registrations of other devices for the same target end. Beyond the limits,
    /// the app that the device registered longest ago and the user's device that registered longest ago are removed.
    /// Returns the registrations of the device.
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

    /// Returns all registrations in the groups beyond `most`. The group that has been without a new registration for
    /// the longest time is removed first. The group `own`, of the new registration, always stays.
    private static func excess<Group: Hashable & Comparable>(
        of registrations: [PushRegistration], by group: KeyPath<PushRegistration, Group>, most: Int, besides own: Group
    ) -> [PushRegistration.Key] {
        let groups = Dictionary(grouping: registrations) { $0[keyPath: group] }
        let others = groups.filter { $0.key != own }.map { (newest: $0.value.map(\.since).max() ?? 0, group: $0.key) }
        let gone = others.sorted { ($0.newest, $0.group) < ($1.newest, $1.group) }.prefix(max(0, groups.count - most))
        return gone.flatMap { groups[$0.group] ?? [] }.map(\.key)
    }

    /// Ends registrations of a device; a nil platform or app means all of them. Returns the remaining registrations of
    /// the device.
    package mutating func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?, now: Milliseconds
    ) -> [PushRegistration] {
        remove(
            kept.keys.filter { key in
                key.device == device && key.platform == platform ?? key.platform && key.app == app ?? key.app
            })
        return registrations(of: device, now: now)
    }

    /// Ends a registration unless the device has registered anew since.
    package mutating func end(_ registration: PushRegistration) {
        guard let known = kept[registration.key], known.since == registration.since,
            known.digest == registration.digest
        else { return }
        kept[registration.key] = nil
    }

    /// Returns the user's registrations in the order of their keys.
    package func registrations(of user: UserID, now: Milliseconds) -> [PushRegistration] {
        kept.values.filter { $0.device.userID == user && Self.lasts($0, now) }.sorted { $0.key < $1.key }
    }

    private func registrations(of device: DeviceAddress, now: Milliseconds) -> [PushRegistration] {
        registrations(of: device.userID, now: now).filter { $0.device == device }
    }

    package mutating func erase(_ user: UserID) { remove(kept.keys.filter { $0.device.userID == user }) }

    /// Ends registrations that were not made anew within `PushLimits.registrationLife`.
    package mutating func clean(now: Milliseconds) {
        remove(kept.values.filter { !Self.lasts($0, now) }.map(\.key))
    }

    private static func lasts(_ registration: PushRegistration, _ now: Milliseconds) -> Bool {
        registration.since + PushLimits.registrationLife > now
    }

    private mutating func remove(_ keys: [PushRegistration.Key]) { for key in keys { kept[key] = nil } }

    /// The content of the registrations for comparison, with a text for each registration.
    package var traits: [String] { kept.values.map { "registered \($0.key) \($0.digest) \($0.since)" } }
}
