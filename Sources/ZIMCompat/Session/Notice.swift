internal import SignalingProtocol

/// What the app is told, each thing once, in this order.
enum Notice: Sendable, Equatable {
    case connection(ZIMConnectionState, ZIMConnectionEvent)
    /// Nobody asked, and something is wrong.
    case error(Refusal)
    case tokenWillExpire(seconds: Int)
    case profile(UserSnapshot)
    case created(CallSnapshot)
    /// `own`: this user in the call.
    case received(CallSnapshot, own: MemberSnapshot)
    case cancelled(CallSnapshot, own: MemberSnapshot)
    case timeout(CallSnapshot)
    case ended(CallSnapshot)
    /// The call is over on this device, and may go on without it: another device of the user has answered the invitation or has taken the
    /// call over, the user has declined it beside the app, or has quit without a request of this device. `own`: this user in the call.
    case overHere(CallSnapshot, own: MemberSnapshot)
    /// Members whose state is another one than was told, in the order of their invitations. `answers`: those of them whose invitations this
    /// user made, and which have been accepted or rejected, or have timed out.
    case states(CallID, [MemberSnapshot], answers: [MemberSnapshot] = [])
}
