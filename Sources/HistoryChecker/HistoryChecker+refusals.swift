import SignalingProtocol

/// A request that was refused because of how a call stood.
struct Refusal {
    let request: Request
    let device: DeviceAddress
    let error: SignalingError
    /// When the request was sent first, and when the refusal came: it was judged between the two.
    let from: Int64
    let to: Int64
}

/// The loser of a race is told which, and truly.
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

    /// How the call looked at some time between the two moments; nil when that is not known without a gap.
    private func faces(of call: CallHistory, from: Int64, to: Int64) -> [CallSnapshot]? {
        // Since when a revision stands is known from who saw it: it is written some time after the moment that it names.
        guard let first = call.views.lastIndex(where: { $0.seenAt < from }) else { return nil }
        let end = call.views.firstIndex { $0.time > to + tolerances.clock } ?? call.views.count
        // A time that the service's clock should not have shown yet is another rule's business.
        guard first < end else { return nil }
        // A revision that nobody saw may be the one that was judged by; so may one after the last that was seen.
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
            // A cancel is told the state of one of those who were invited, another request that of its own user.
            if case .cancel = refusal.request.body {
                return call.members.contains { $0.state.rawValue == error.state }
            }
            return error.state == member.state.rawValue
        }
    }
}
