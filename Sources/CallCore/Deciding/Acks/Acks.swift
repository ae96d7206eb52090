import SignalingProtocol

/// Acks of call events (docs/protocol.md, section 5).
extension Deciding {
    /// Decides an ack. An ack replaces the device's last ack only if the ack has another session or a higher revision.
    /// A stale ack, of an earlier revision than the call's, still shows that the device has this earlier revision, so a
    /// stale ack can make the invitation `received`. After a stale ack the device gets the latest revision at once,
    /// unless limits hold the delivery back.
    func decideAck(
        _ device: DeviceAddress, _ revision: Int, _ stored: StoredRecord?, _ decision: inout Decision
    ) throws(Undecided) {
        guard let call = decision.call, call.hasMember(device.userID) else { return }
        let revision = min(revision, call.revision)
        let ack = DeviceAck(device: device, session: facts.session(of: device), revision: revision)
        let known = decision.subject.acks.first { $0.device == device }
        if known.map({ !$0.isSession(ack.session) || $0.revision < revision }) ?? true {
            decision.steps.append(.ack(device, revision: revision))
        }
        // Revision 0 stands for a device that has come online and has acknowledged nothing yet.
        if known?.revision ?? 0 == 0 { noteRing(of: device, revision, stored, &decision) }
        keep(ack, call.callID, &decision)
        if revision < call.revision {
            decision.counts.add(.staleAcks)
            if !decision.stale.contains(device), getsDeliveryAtOnce(device, staleOn: call, &decision) {
                decision.refresh.append(device)
                decision.stale.append(device)
            }
        }
        _ = decision.subject.machine?.acknowledged(by: device.userID, revision: revision, now: now)
        heard(device, &decision)
        if call.isOver { decideRest(try facts.presence(of: call.members.map(\.userID)), &decision) }
    }

    /// Notes the first ack of a device whose user is rung.
    func noteRing(
        of device: DeviceAddress, _ revision: Int, _ stored: StoredRecord?, _ decision: inout Decision
    ) {
        guard let call = decision.call, call.isLive, let member = call.member(device.userID), member.state.isPending,
            member.invitedRevision > 0, revision >= member.invitedRevision, let invitedAt = call.invitedAt(member)
        else { return }
        let check = RingCheck(device: device, invitation: member.invitedRevision)
        guard stored?.checks.contains(check) != true, !decision.subject.notes.contains(.ringCheck(call.callID, check))
        else { return }
        let isAfterPush =
            stored?.pushes.contains {
                $0.key.device == device && $0.invitation == member.invitedRevision
                    && ($0.ring == .sent || $0.ring == .trying)
            } ?? false
        decision.ringAcks.append(RingAck(after: max(0, now - invitedAt), isAfterPush: isAfterPush))
    }

    /// Decides a heartbeat. A device that sends heartbeats assumes that its user is in the call. A device that is not
    /// in the call gets the outcome of its part, because the store may have lost a write after the device got the
    /// response.
    func decideHeartbeat(_ device: DeviceAddress, _ decision: inout Decision) {
        heard(device, &decision)
        guard let call = decision.call, call.mode == .advanced, let member = call.member(device.userID),
            !call.isLive || member.state != .accepted || member.device != device.deviceID,
            !decision.stale.contains(device), getsDeliveryAtOnce(device, staleOn: call, &decision)
        else { return }
        decision.refresh.append(device)
        decision.stale.append(device)
        decision.astray.append(device)
    }

    /// Whether a device with a stale ack gets its delivery at once. The delivery waits for the next resend within a
    /// second of the last such answer about the call. The delivery also waits while the device is silent or has got its
    /// share of bytes (`ResendPacing`), and while the device's user has got too many bytes.
    private func getsDeliveryAtOnce(_ device: DeviceAddress, staleOn call: Call, _ decision: inout Decision) -> Bool {
        // On a slow line, the ack comes late, and the newer event is already on its way.
        let candidate = ResendPacing.Candidate(
            .call(call.callID), isRinging: call.member(device.userID)?.state.isPending ?? false,
            createdAt: call.createdAt, bytes: call.approximateBytes, isFirst: true)
        guard allowances.mayResend(candidate, to: .init(device.userID, device.deviceID), now: now) else {
            decision.counts.add(.resendsHeldBack)
            return false
        }
        guard allowances.mayAnswer(device, staleOn: call.callID, now: now) else {
            decision.counts.addLimited(device.userID, by: "staleAcks")
            return false
        }
        guard allowances.wait(forBytesOf: device.userID, now: now) == nil else {
            decision.counts.addLimited(device.userID, by: RateLimiter.Key.sentBytes(device.userID).name)
            return false
        }
        return true
    }

    /// Keeps the ack for the store and for the delivery of this decision, of at most 32 devices of a user. The store
    /// writes the ack together with the call when the decision changes the call, and otherwise alone.
    func keep(_ ack: DeviceAck, _ callID: CallID, _ decision: inout Decision) {
        let acks = decision.subject.acks
        let own = acks.filter { $0.device.userID == ack.device.userID }
        guard own.count < ServiceBounds.acksPerUser || own.contains(where: { $0.device == ack.device }) else { return }
        decision.subject.notes.append(.ack(callID, ack))
        if let place = acks.firstIndex(where: { $0.device == ack.device }) {
            let known = acks[place]
            if !known.isSession(ack.session) || known.revision < ack.revision { decision.subject.acks[place] = ack }
        } else {
            decision.subject.acks.append(ack)
        }
    }
}
