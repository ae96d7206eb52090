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
    /// Members whose state is another one than was told, in the order of their invitations.
    case states(CallID, [MemberSnapshot])
}
