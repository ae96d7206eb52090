import SignalingProtocol

/// Ring checks of devices that a push woke and that are not connected (docs/protocol.md, section 7, Ring check). The
/// gateway has verified the key.
extension Deciding {
    func decideRingCheck(
        _ check: Request.RingCheck, _ received: ReceivedRequest, _ stored: StoredRecord?, _ decision: inout Decision
    ) {
        do throws(SignalingError) {
            let device = DeviceAddress(userID: received.device.userID, deviceID: check.device)
            let state = try decide(check, of: device, received.request.id, stored, &decision)
            decision.counts.add(.responses, "ok")
            decision.reply(received, .answer(.ring(state)))
        } catch {
            decision.counts.add(.responses, error.code.rawValue)
            decision.reply(received, .failure(error))
        }
    }

    private func decide(
        _ check: Request.RingCheck, of device: DeviceAddress, _ id: RequestID, _ stored: StoredRecord?,
        _ decision: inout Decision
    ) throws(SignalingError) -> RingState {
        guard decision.subject.alias == nil, let call = decision.call, call.hasMember(device.userID),
            call.endedAt.map({ now < $0 + ServiceBounds.ringCheckLife }) ?? true
        else { throw .callNotFound }
        if case .over(let reason) = call.ringState(of: device.userID, check.invitation, now: now) {
            return .over(reason)
        }
        noteCheck(RingCheck(device: device, invitation: check.invitation), call.callID, stored, &decision)
        if check.isRejected { try reject(call.callID, for: device, id, &decision) }
        return decision.call?.ringState(of: device.userID, check.invitation, now: now) ?? .over(.ended)
    }

    /// Notes the check as an ack of the invitation. The check is kept apart from the acks of live sessions, because the
    /// app that connects afterwards must still get the invitation.
    private func noteCheck(
        _ check: RingCheck, _ callID: CallID, _ stored: StoredRecord?, _ decision: inout Decision
    ) {
        let known = stored?.checks.filter { $0.device.userID == check.device.userID } ?? []
        let isKnown = known.contains(check) || decision.subject.notes.contains(.ringCheck(callID, check))
        let hasRoom = known.count < ServiceBounds.acksPerUser || known.contains { $0.device == check.device }
        if !isKnown, hasRoom {
            noteRing(of: check.device, check.invitation, stored, &decision)
            decision.subject.notes.append(.ringCheck(callID, check))
            decision.steps.append(.ack(check.device, revision: check.invitation))
        }
        _ = decision.subject.machine?.acknowledged(by: check.device.userID, revision: check.invitation, now: now)
    }

    /// Rejects the invitation for the device, as `call.reject` does.
    private func reject(
        _ callID: CallID, for device: DeviceAddress, _ id: RequestID, _ decision: inout Decision
    ) throws(SignalingError) {
        let acting = CallMachine.Acting(key: RequestKey(device: device, requestID: id), now: now)
        let reject = Request.Reject(callID: callID)
        try decision.subject.machine?.rejectRequested(reject, acting, isCheck: true)
        decision.steps.append(.request(device, type: Request.Body.reject(reject).type, outcome: "ok"))
    }
}

extension Call {
    /// Returns the state of the invitation of this revision, for the devices of the user that a push woke.
    func ringState(of user: UserID, _ invitation: Int, now: Milliseconds) -> RingState {
        guard let member = member(user), member.invitedRevision == invitation else { return .over(.ended) }
        switch member.state {
        case .accepted, .quit: return .over(.answeredElsewhere)
        case .rejected: return .over(.rejected)
        case .cancelled: return .over(.cancelled)
        case .timeout: return .over(.timeout)
        case .inviting, .notYetReceived, .received:
            guard isLive, let expiresAt = member.expiresAt else { return .over(.ended) }
            // An expired invitation must not ring, even before a coordinator has served its deadline.
            guard now < expiresAt else { return .over(.timeout) }
            return .ringing(expiresIn: Int(expiresAt - now), snapshot)
        }
    }
}

extension Decision {
    fileprivate mutating func reply(_ received: ReceivedRequest, _ outcome: Response.Outcome) {
        reply(
            Reply(
                device: received.device, content: .response(received.request.id, outcome), path: received.path,
                isOfRingCheck: true))
    }
}
