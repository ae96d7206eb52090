import SignalingProtocol

/// The model of the pushes that devices got lately: the rules that every store must follow. `now` is the store's time.
package struct PushReservations: Equatable, Sendable {
    private struct Reservation: Equatable, Sendable {
        let id: String
        let inviter: UserID
        let at: Milliseconds
    }

    private var entries: [DeviceAddress: [Reservation]] = [:]

    package init() {}

    /// Reserves a push. Returns whether the worker may send the push. A push that was reserved in this window may be
    /// sent again and counts only once.
    package mutating func reserve(_ push: PushReservation, now: Milliseconds) -> Bool {
        let known = (entries[push.device] ?? []).filter { Self.counts($0, now) }
        entries[push.device] = known
        if known.contains(where: { $0.id.utf8.elementsEqual(push.id.utf8) }) { return true }
        guard known.count < PushLimits.perDevice,
            known.count(where: { $0.inviter == push.inviter }) < PushLimits.perInviter
        else { return false }
        entries[push.device]?.append(Reservation(id: push.id, inviter: push.inviter, at: now))
        return true
    }

    package mutating func erase(_ user: UserID) { entries = entries.filter { $0.key.userID != user } }

    package mutating func clean(now: Milliseconds) {
        entries = entries.mapValues { $0.filter { Self.counts($0, now) } }.filter { !$0.value.isEmpty }
    }

    private static func counts(_ entry: Reservation, _ now: Milliseconds) -> Bool { entry.at + PushLimits.window > now }
}
