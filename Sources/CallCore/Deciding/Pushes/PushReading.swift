import SignalingProtocol

/// What `PushJudge` judges by, as it was read.
package struct PushReading: Sendable {
    package let call: Call
    package let acks: [DeviceAck]
    package let checks: [RingCheck]
    package private(set) var pushes: [PushState]
    package let presence: Presence
    package let registrations: [UserID: [PushRegistration]]

    /// Nil when no call stands there.
    package init?(_ stored: StoredRecord?, _ presence: Presence, _ registrations: [UserID: [PushRegistration]]) {
        guard let stored, case .call(let call) = stored.record else { return nil }
        self.call = call
        acks = stored.acks
        checks = stored.checks
        pushes = stored.pushes
        self.presence = presence
        self.registrations = registrations
    }

    /// What is known beyond what was read; an earlier invitation's does not count.
    package mutating func learn(_ state: PushState) {
        guard let place = pushes.firstIndex(where: { $0.key == state.key }) else { return pushes.append(state) }
        if pushes[place].invitation <= state.invitation { pushes[place] = state }
    }
}

/// One push, however often it is tried.
package struct PushID: Hashable, Sendable {
    package let key: PushRegistration.Key
    package let kind: PushKind
    /// The revision at which the user was invited.
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
    /// Who invites, or did.
    package let inviter: UserID
    /// From when on it is too late, by the store's clock.
    package let expiresAt: Milliseconds
    /// How far the pushes to this registration are.
    package let state: PushState
    /// The device was sent `ring` for this invitation, or may have been.
    package let wasRung: Bool

    package var id: PushID { PushID(registration.key, kind, invitation: state.invitation) }
}

/// What is to be done about a call's pushes now.
package struct PushJudgement: Equatable, Sendable {
    package var due: [DuePush] = []
    /// When to look again, by the store's clock; nil: when something changes.
    package var next: Milliseconds?
    /// What is due at that time or later, unless something changes.
    package var postponed: Set<PushID> = []
    /// What is to be kept of pushes that are not to be sent (any more).
    package var settled: [PushState] = []
    /// Those of them that were due, and whose ringing was over before they left.
    package var late: [PushID] = []

    package init() {}
}
