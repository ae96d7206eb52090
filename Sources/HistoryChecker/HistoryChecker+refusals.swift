import SignalingProtocol

/// A request that was refused because of the state of a call.
struct Refusal {
    let request: Request
    let device: DeviceAddress
    let error: SignalingError
    /// The times at which the request was first sent (`from`) and the refusal arrived (`to`): the service decided
    /// between these times.
    let from: Int64
    let to: Int64
}

/// Checks refusals: the loser of a race must be told the true reason.
extension HistoryChecker {
    mutating func noteRefusal(_ error: SignalingError, _ history: RequestHistory, _ device: DeviceAddress) {
        guard [.alreadyInCall, .answeredElsewhere, .callEnded, .invalidState].contains(error.code) else { return }
        later(
            .refusal(
                Refusal(
                    request: history.request, device: device, error: error, from: history.firstSent, to: now)))
    }

    mutating func judgeRefusal(_ refusal: Refusal) {
        let error = refusal.error
        guard let callID = error.code == .alreadyInCall ? error.callID : refusal.request.body.callID,
            let call = calls[callID], let faces = faces(of: call, from: refusal.from, to: refusal.to),
            !faces.contains(where: { fits($0, refusal) })
        else { return }
        let last = faces.last.map(\.story) ?? "unknown"
        report(
            .wrongRefusal, callID, refusal.device,
            "request \(refusal.request.id) was refused with \(error.code) \(error.state ?? ""), "
                + "but the call was {\(last)}"
        )
    }

    /// Returns the revisions of the call between the two moments; nil when a revision in that period is unknown.
    private func faces(of call: CallHistory, from: Int64, to: Int64) -> [CallSnapshot]? {
        // A revision's time is the time of its decision, and the store wrote the revision somewhat later. The first
        // revision is therefore the last revision that a device saw before `from`.
        guard let first = call.views.lastIndex(where: { $0.seenAt < from }) else { return nil }
        let end = call.views.firstIndex { $0.time > to + tolerances.clock } ?? call.views.count
        // When a device saw a revision before `from` whose time is after `to`, the time is wrong, and another rule
        // reports the fault.
        guard first < end else { return nil }
        // The service may have decided by a revision that no device saw, including a revision after the last seen
        // revision.
        let faces = call.views[first..<end].map(\.call)
        let next = end < call.views.count ? call.views[end].call.revision : faces[faces.count - 1].revision + 1
        guard next - faces[0].revision == faces.count, end < call.views.count || call.isOver else { return nil }
        return faces
    }

    private func fits(_ call: CallSnapshot, _ refusal: Refusal) -> Bool {
        let error = refusal.error
        guard let member = call.member(refusal.device.userID) else { return false }
        switch error.code {
        case .alreadyInCall: return call.state != .ended && member.state == .accepted
        case .answeredElsewhere:
            return [.accepted, .rejected].contains(member.state) && member.device != refusal.device.deviceID
        case .callEnded: return call.state == .ended && error.state == member.state.rawValue
        default:
            // A refused cancel names the state of one of its invitees; every other refusal names the state of the
            // requesting user.
            if case .cancel = refusal.request.body {
                return call.members.contains { $0.state.rawValue == error.state }
            }
            return error.state == member.state.rawValue
        }
    }
}
