import SignalingProtocol

/// Decides that a member's device came online.
extension Deciding {
    func decideOnline(_ device: DeviceAddress, isTold: Bool, _ decision: inout Decision) throws(Undecided) {
        if let call = decision.call, !call.hasMember(device.userID) { return }
        decision.note(presence: "online", of: device)
        _ = decision.subject.machine?.cameOnline(device)
        decision.refresh.append(device)
        guard let call = decision.call else { return }
        let presence = try facts.presence(of: [device.userID])
        let views = delivering.views(of: device.userID, decision.subject.acks, presence)
        guard var view = views.first(where: { $0.address == device }) else { return }
        // The call has ended since the welcome was made, possibly with an end time before this session began. The
        // device must get the end.
        if isTold { view.knowsCall = true }
        guard call.delivery(to: view, now: now, settings: settings.calls) != nil else { return }
        if let known = presence[device.userID]?.first(where: { $0.device == device }) {
            // The ack is written before the device gets the event: another process may be ending the call with an end
            // time before this session began.
            keep(DeviceAck(device: device, session: known.session, revision: 0), call.callID, &decision)
        }
        decision.subject.machine?.scheduleDelivery(at: now + ResendSchedule.firstDelay)
    }
}
