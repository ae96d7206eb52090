import CallCore
import CallStore
import SignalingProtocol

/// The values that a property had during the last second.
struct RecentHistory<Value> {
    private static var kept: Milliseconds { 1_000 }
    private var entries: [(since: Milliseconds, value: Value)] = []

    mutating func became(_ value: Value, at now: Milliseconds) {
        entries.append((now, value))
        while entries.count > 1, entries[1].since < now - Self.kept { entries.removeFirst() }
    }

    var last: Value? { entries.last?.value }

    /// Returns the values that were valid at or after `moment`.
    func values(since moment: Milliseconds) -> [Value] {
        let first = entries.lastIndex { $0.since <= moment } ?? 0
        return entries[first...].map(\.value)
    }
}

/// The calls, registrations and presence in the store, now and during the last second.
final class PushTruth {
    private let store: MemoryCallStore
    private let users: [UserID]
    private var calls: [CallID: RecentHistory<StoredRecord>] = [:]
    /// Calls of which a push may still be due.
    private var open: Set<CallID> = []
    private var registrations = RecentHistory<[PushRegistration]>()
    /// The device that registered each target last, independent of the registrations in the store.
    private var owners: [String: RecentHistory<DeviceAddress>] = [:]
    private var presence: [UserID: RecentHistory<[DevicePresence]>] = [:]

    init(_ store: MemoryCallStore, users: [UserID], now: Milliseconds) {
        self.store = store
        self.users = users
        registered(now)
        for user in users { present(user, now) }
    }

    func wrote(_ callID: CallID, _ now: Milliseconds) {
        guard let stored = store.load([.call(callID)])[0] else { return }
        calls[callID, default: RecentHistory()].became(stored, at: now)
        open.insert(callID)
    }

    /// Returns the current state of the calls that are live or ended after `moment`. `moment` must not go back from
    /// call to call.
    func calls(endedSince moment: Milliseconds) -> [(call: Call, stored: StoredRecord)] {
        var found: [(call: Call, stored: StoredRecord)] = []
        for callID in open {
            guard let last = calls[callID]?.last, case .call(let call) = last.record,
                call.isLive || call.endedAt ?? 0 > moment
            else {
                open.remove(callID)
                continue
            }
            found.append((call, last))
        }
        return found
    }

    /// Records the state of every call after the store lost writes.
    func wroteAll(_ now: Milliseconds) { for call in store.contents.calls { wrote(call.callID, now) } }

    func registered(_ now: Milliseconds) {
        registrations.became(store.registrations(of: users).flatMap(\.self), at: now)
    }

    /// Records that from now on the target belongs to this device.
    func registered(_ registration: PushRegistration, _ now: Milliseconds) {
        owners[registration.target.identity, default: RecentHistory()].became(registration.device, at: now)
        registered(now)
    }

    func present(_ user: UserID, _ now: Milliseconds) {
        presence[user, default: RecentHistory()].became(store.devices(of: [user])[0], at: now)
    }

    // MARK: Recent states

    func calls(_ callID: CallID, since moment: Milliseconds) -> [(call: Call, stored: StoredRecord)] {
        (calls[callID]?.values(since: moment) ?? []).compactMap { stored in
            if case .call(let call) = stored.record { (call, stored) } else { nil }
        }
    }

    func registrations(since moment: Milliseconds) -> [[PushRegistration]] { registrations.values(since: moment) }

    func owners(of target: PushTarget, since moment: Milliseconds) -> [DeviceAddress] {
        owners[target.identity]?.values(since: moment) ?? []
    }

    func wasOffline(_ device: DeviceAddress, since moment: Milliseconds, lease: Milliseconds) -> Bool {
        (presence[device.userID]?.values(since: moment) ?? []).contains { !isOnline(device, $0, moment, lease) }
    }

    func wasOnline(_ device: DeviceAddress, since moment: Milliseconds, lease: Milliseconds) -> Bool {
        (presence[device.userID]?.values(since: moment) ?? []).contains { isOnline(device, $0, moment, lease) }
    }

    private func isOnline(
        _ device: DeviceAddress, _ devices: [DevicePresence], _ moment: Milliseconds, _ lease: Milliseconds
    ) -> Bool {
        devices.contains { $0.device == device && $0.isReachable(at: moment, lease: lease) }
    }
}

/// The state of an invitation for a device.
struct PushStanding {
    let call: Call
    let member: Member
    /// The highest revision that the device has acked.
    let acked: Int
    let hasChecked: Bool

    /// Returns nil when the user is not invited, or is invited by another invitation.
    init?(_ call: Call, _ stored: StoredRecord, _ device: DeviceAddress, invitation: Int) {
        guard let member = call.entry(device.userID), !member.isWithheld, member.invitedRevision == invitation else {
            return nil
        }
        self.call = call
        self.member = member
        acked = stored.acks.filter { $0.device == device }.map(\.revision).max() ?? 0
        hasChecked = stored.checks.contains { $0.device == device && $0.invitation == invitation }
    }

    var isRinging: Bool { member.state.isPending && call.isLive }
    var knowsInvitation: Bool { hasChecked || acked >= member.invitedRevision }
    /// The revision at which the ringing ended. `call.end` does not change pending members.
    var endRevision: Int { isCutOff ? call.revision : member.changedRevision }
    var endedAt: Milliseconds { isCutOff ? call.endedAt ?? 0 : member.updatedAt }
    var knowsEnd: Bool { acked >= endRevision }
    /// Whether the invitation ended with `missed`.
    var isMissed: Bool {
        ([.cancelled, .timeout].contains(member.state) || isCutOff) && !member.hasResponded
    }
    /// Whether the call ended before the user had answered.
    private var isCutOff: Bool { member.state.isPending && !call.isLive }
    var isAnswered: Bool { [.accepted, .rejected, .quit].contains(member.state) }
    /// Whether the ringing ended, but neither with `missed` nor by an answer on this device.
    func isStopped(for device: DeviceAddress) -> Bool {
        if isAnswered { return member.device != device.deviceID }
        return !isRinging && !isMissed
    }
}
