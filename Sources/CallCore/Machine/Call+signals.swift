import SignalingProtocol

/// The rules of signals: the users who may signal in a call, and the recipients (docs/protocol.md, section 2,
/// `call.signal`).
extension Call {
    /// Refuses a signal of a user who is not accepted in the live call. Returns an error for each user in `to` whom the
    /// signal cannot reach.
    package func judge(_ signal: Request.Signal, from user: UserID) throws(SignalingError) -> [UserError] {
        guard let sender = member(user) else { throw .callNotFound }
        guard isLive else { throw .callEnded(sender.state) }
        guard sender.state == .accepted else { throw .invalidState(sender.state) }
        return (signal.to ?? []).compactMap { recipient in
            // A member with a withheld invitation gets the same error as other pending members: the sender must not
            // learn of the block.
            guard let member = entry(recipient) else { return UserError(userID: recipient, code: .callNotFound) }
            let isReached = member.state == .accepted && recipient != user
            return isReached ? nil : UserError(userID: recipient, code: .invalidState)
        }
    }

    /// Returns the devices of the accepted members other than the sender: of all these members, or of the members in
    /// the signal's `to`.
    package func recipients(of signal: Request.Signal, from user: UserID) -> [DeviceAddress] {
        members.compactMap { member in
            guard member.state == .accepted, member.userID != user, signal.to?.contains(member.userID) ?? true else {
                return nil
            }
            return member.device.map { DeviceAddress(userID: member.userID, deviceID: $0) }
        }
    }
}
