import SignalingProtocol

/// The state machine of a call (docs/protocol.md, section 3). The machine does no I/O and reads no clock: callers pass
/// in `now`.
///
/// The machine has a method for each event. A request either changes the call and returns the part of its response that
/// is not in the call, or throws the error of the response and leaves the call unchanged.
package struct CallMachine: Sendable {
    package internal(set) var call: Call
    package let settings: CallSettings
    /// The call at each revision between the first revision of this machine and the present revision, in order. Webhook
    /// endpoints get every revision, including these.
    package private(set) var passed: [Call] = []
    /// The first revision of this machine.
    private let firstRevision: Int

    package init(call: Call, settings: CallSettings) {
        self.call = call
        self.settings = settings
        firstRevision = call.revision
    }

    /// The request and its device, and the time. Each event's signature names the data that the event needs from
    /// outside of the call, so that a forgotten query does not compile.
    package struct Acting: Sendable {
        package let key: RequestKey
        package let now: Milliseconds
        /// The digest of an invite's content.
        package let digest: Int64?

        package init(key: RequestKey, now: Milliseconds, digest: Int64? = nil) {
            self.key = key
            self.now = now
            self.digest = digest
        }

        var user: UserID { key.device.userID }
        var device: DeviceID { key.device.deviceID }
    }

    /// Facts about the invitees.
    package struct Invitees: Sendable {
        /// The profiles of the users who become members, for users with a profile.
        package let profiles: [UserID: UserProfile]
        /// The users that the service does not know and therefore does not invite (section 2, Users).
        package let unregistered: [UserID]
        /// The users with too many invitations (section 2, Rate limits).
        package let limited: [UserID]
        /// The users with a block of the inviting user.
        package let withheld: [UserID]
        /// The users with a push registration; nil when the deployment sends no pushes.
        package let pushable: [UserID]?

        package init(
            profiles: [UserID: UserProfile], unregistered: [UserID], limited: [UserID], withheld: [UserID],
            pushable: [UserID]?
        ) {
            self.profiles = profiles
            self.unregistered = unregistered
            self.limited = limited
            self.withheld = withheld
            self.pushable = pushable
        }

        /// Returns the reason that the user cannot be invited; nil for a user who can.
        package func problem(with user: UserID) -> UserError? {
            if unregistered.contains(user) { return UserError(userID: user, code: .userNotRegistered) }
            return limited.contains(user) ? UserError(userID: user, code: .rateLimited) : nil
        }
    }

    // MARK: Functions that several features share

    /// Makes the user a member with the present profile.
    mutating func append(_ user: UserID, _ state: MemberState, at now: Milliseconds, _ profile: UserProfile?) {
        var member = Member(userID: user, state: state, updatedAt: now)
        member.show(profile)
        call.members.append(member)
    }

    func index(_ user: UserID) -> Int? { call.members.firstIndex { $0.userID == user } }

    /// Returns the member's index. A user outside of the call gets the same error as for a call that does not exist.
    func memberIndex(_ user: UserID) throws(SignalingError) -> Int {
        guard let index = index(user), !call.members[index].isWithheld else { throw .callNotFound }
        return index
    }

    func requireAdvanced() throws(SignalingError) {
        guard call.mode == .advanced else { throw SignalingError(.wrongMode, "the call is in common mode") }
    }

    /// Returns the index of an accepted member of a live advanced call.
    func acceptedIndex(_ user: UserID) throws(SignalingError) -> Int {
        let index = try memberIndex(user)
        try requireAdvanced()
        let state = call.members[index].state
        guard call.isLive else { throw .callEnded(state) }
        guard state == .accepted else { throw .invalidState(state) }
        return index
    }

    /// Opens a new revision. All later changes of the same event belong to this revision.
    mutating func revise(at now: Milliseconds, by actor: UserID?) {
        if call.revision > firstRevision { passed.append(call) }
        call.revision += 1
        call.updatedAt = max(now, call.updatedAt)
        call.actor = actor
        call.deliveryServedAt = call.updatedAt
        call.deliveryDue = call.updatedAt + ResendSchedule.firstDelay
    }

    /// Changes a member's state within the present revision. All members see the change.
    mutating func move(_ index: Int, to state: MemberState, reason: String? = nil, extendedData: String? = nil) {
        call.members[index].state = state
        call.members[index].reason = reason
        call.members[index].extendedData = extendedData
        touch(index)
        forgetPushTexts()
    }

    mutating func touch(_ index: Int) {
        call.members[index].updatedAt = call.updatedAt
        call.members[index].changedRevision = call.revision
    }

    /// Records that `device` answered or joined: the user's other devices stop ringing.
    mutating func handle(_ index: Int, on device: DeviceID) {
        call.members[index].device = device
        call.members[index].handledRevision = call.revision
        call.members[index].isHandledByCheck = false
        call.members[index].hasResponded = true
        call.members[index].isWithheld = false
        // A lost inviter who joins on another device is back.
        if call.members[index].userID == call.inviter { call.callerLostAt = nil }
        guard call.mode == .advanced, call.members[index].state == .accepted else { return }
        let due = call.updatedAt + settings.silence(of: device)
        call.heartbeatDue = min(call.heartbeatDue ?? due, due)
    }

    /// Enters the member into the call on `device`.
    mutating func enter(_ index: Int, on device: DeviceID, extendedData: String?) {
        move(index, to: .accepted, extendedData: extendedData)
        handle(index, on: device)
        if call.members[index].userID != call.inviter {
            if call.acceptedAt == nil { call.acceptedAt = call.updatedAt }
            if call.state == .ringing { call.state = .active }
            call.callerLostAt = nil
        }
    }

    /// Ends the call if a change with this cause has left the call without a reason to go on (section 3). A call
    /// without `autoEnd` ends when it has been empty for some time (`emptyCallExpired`). `call.end` ends an advanced
    /// call and leaves pending members pending (`endRequested` in `CallMachine+membership.swift`).
    mutating func endIfOver(cause: EndReason) {
        guard call.isLive else { return }
        let pending = call.members.count { $0.state.isPending }
        let accepted = call.members.count { $0.state == .accepted }
        switch call.mode {
        case .common:
            if pending == 0 { end(call.acceptedAt != nil ? .answered : cause) }
        case .advanced where call.autoEnd:
            if accepted == 0 || accepted + pending < 2 { end(cause) }
        case .advanced:
            call.emptySince = accepted + pending > 0 ? nil : call.emptySince ?? call.updatedAt
        }
    }

    /// Ends the call within the present revision. Pending members become `cancelled`.
    mutating func end(_ reason: EndReason) {
        for index in call.members.indices where call.members[index].state.isPending {
            move(index, to: .cancelled, reason: reason.rawValue)
        }
        endKeepingStates(reason)
    }

    /// Ends the call without changing the members' states.
    mutating func endKeepingStates(_ reason: EndReason) {
        call.state = .ended
        call.endReason = reason
        call.endedAt = call.updatedAt
        call.callerLostAt = nil
        call.heartbeatDue = nil
        call.emptySince = nil
    }
}

extension SignalingError {
    package static let callNotFound = SignalingError(.callNotFound, "no such call")
    package static let callExists = SignalingError(.callExists, "callID: another call has this id")

    static func invalidState(_ state: MemberState) -> SignalingError {
        SignalingError(
            .invalidState, "not possible while the member's state is \(state.rawValue)", state: state.rawValue)
    }

    static func callEnded(_ state: MemberState) -> SignalingError {
        SignalingError(.callEnded, "the call has ended", state: state.rawValue)
    }

    package static func alreadyInCall(_ callID: CallID) -> SignalingError {
        SignalingError(.alreadyInCall, "the user is in another call: quit or join it", callID: callID)
    }
}
