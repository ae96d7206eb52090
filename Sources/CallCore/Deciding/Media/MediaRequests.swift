import SignalingProtocol

/// Media sessions (docs/protocol.md, Media sessions). A session is made when its message is encoded, from the call as
/// the call is then, and is never stored. So a decision only says whether a device may have a session.
extension Deciding {
    /// Decides `call.media`. Throws the refusal of a device that gets no session.
    func decideMedia(_ device: DeviceAddress, _ machine: CallMachine) throws(SignalingError) {
        try machine.getRequested(by: device.userID)
        let call = machine.call
        guard let member = call.member(device.userID) else { throw .callNotFound }
        guard call.isLive || call.wasAnsweredLately(now) && member.state == .accepted else {
            throw .callEnded(member.state)
        }
        guard call.mediaMember(device, now: now) != nil else {
            guard member.state == .accepted else { throw .invalidState(member.state) }
            let text = "the user is accepted on another device"
            throw SignalingError(.invalidState, text, state: member.state.rawValue)
        }
        guard settings.media?.server(for: call.media) != nil else {
            throw SignalingError(.noMedia, "calls of this kind have no media server")
        }
    }
}

extension Call {
    /// Returns the facts for the media session of a device; nil unless the user is accepted on this device in a live
    /// call, or in a common call that was answered lately.
    package func mediaMember(_ device: DeviceAddress, now: Milliseconds) -> MediaMember? {
        guard isLive || wasAnsweredLately(now), let member = member(device.userID), member.state == .accepted,
            member.device == device.deviceID
        else { return nil }
        return MediaMember(
            callID: callID, mode: mode, media: media, inviter: inviter, device: device, name: member.name,
            avatarURL: member.avatarURL)
    }

    /// Whether the call is a common call whose answer has ended the call lately, so that its members talk now.
    fileprivate func wasAnsweredLately(_ now: Milliseconds) -> Bool {
        guard mode == .common, endReason == .answered, let endedAt else { return false }
        return now <= endedAt + ServiceBounds.mediaAfterAnswer
    }
}

extension Request.Body {
    /// Whether the response carries a media session.
    var mediaPart: Reply.MediaPart {
        switch self {
        case .invite, .accept, .join: .optional
        case .media: .required
        default: .none
        }
    }
}
