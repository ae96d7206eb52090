import SignalingProtocol

/// Who may signal in a call, and whom a signal reaches (docs/protocol.md, section 2, `call.signal`).
extension Call {
    /// Refuses a signal of somebody who is not accepted in the live call. Returns those of its `to` whom it cannot reach.
    package func judge(_ signal: Request.Signal, from user: UserID) throws(SignalingError) -> [UserError] {
        guard let sender = member(user) else { throw .callNotFound }
        guard isLive else { throw .callEnded(sender.state) }
        guard sender.state == .accepted else { throw .invalidState(sender.state) }
        return (signal.to ?? []).compactMap { recipient in
            // Also one from whom the invitation is withheld: the sender must not learn that.
            guard let member = entry(recipient) else { return UserError(userID: recipient, code: .callNotFound) }
            let isReached = member.state == .accepted && recipient != user
            return isReached ? nil : UserError(userID: recipient, code: .invalidState)
        }
    }

    /// The accepted devices of the other members, or of those that the signal names.
    package func recipients(of signal: Request.Signal, from user: UserID) -> [DeviceAddress] {
        members.compactMap { member in
            guard member.state == .accepted, member.userID != user, signal.to?.contains(member.userID) ?? true else {
                return nil
            }
            return member.device.map { DeviceAddress(userID: member.userID, deviceID: $0) }
        }
    }
}
