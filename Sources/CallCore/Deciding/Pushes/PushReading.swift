import SignalingProtocol

/// The facts that `PushJudge` decides from, as read from the store.
package struct PushReading: Sendable {
    package let call: Call
    package let acks: [DeviceAck]
    package let checks: [RingCheck]
    package private(set) var pushes: [PushState]
    package let presence: Presence
    package let registrations: [UserID: [PushRegistration]]

    /// Returns nil when the record is not a call.
    package init?(_ stored: StoredRecord?, _ presence: Presence, _ registrations: [UserID: [PushRegistration]]) {
        guard let stored, case .call(let call) = stored.record else { return nil }
        self.call = call
        acks = stored.acks
        checks = stored.checks
        pushes = stored.pushes
        self.presence = presence
        self.registrations = registrations
    }

    /// Adds a state that is newer than the read facts. The state of an earlier invitation is ignored.
    package mutating func learn(_ state: PushState) {
        guard let place = pushes.firstIndex(where: { $0.key == state.key }) else { return pushes.append(state) }
        if pushes[place].invitation <= state.invitation { pushes[place] = state }
    }
}

/// The identity of a push across its attempts.
package struct PushID: Hashable, Sendable {
    package let key: PushRegistration.Key
    package let kind: PushKind
    /// The revision of the user's invitation.
    package let invitation: Int

    package init(_ key: PushRegistration.Key, _ kind: PushKind, invitation: Int) {
        self.key = key
        self.kind = kind
        self.invitation = invitation
    }
}

/// A push that is due.
package struct DuePush: Equatable, Sendable {
    package let registration: PushRegistration
    package let kind: PushKind
    /// The inviter.
    package let inviter: UserID
    /// The end of the push's use, by the store's clock.
    package let expiresAt: Milliseconds
    /// The state of the pushes to this registration.
    package let state: PushState
    /// Whether a ring of this invitation was or may have been sent to the device.
    package let wasRung: Bool

    package var id: PushID { PushID(registration.key, kind, invitation: state.invitation) }
}

/// The result about a call's pushes at present.
package struct PushJudgement: Equatable, Sendable {
    package var due: [DuePush] = []
    /// The time, by the store's clock, at which a worker must judge the pushes again; nil when only a change of the
    /// call requires a new judgement.
    package var next: Milliseconds?
    /// The pushes that will be due at that time or later unless the call changes.
    package var postponed: Set<PushID> = []
    /// The states to store of pushes that are not, or no longer, to be sent.
    package var settled: [PushState] = []
    /// The due pushes in `settled` for a ringing that ended before the push was sent.
    package var late: [PushID] = []

    package init() {}
}
