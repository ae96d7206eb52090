internal import SignalingProtocol

/// A report to the app; each report once, in this order.
enum Notice: Sendable, Equatable {
    case connection(ZIMConnectionState, ZIMConnectionEvent)
    /// An error outside of the app's requests.
    case error(Refusal)
    case tokenWillExpire(seconds: Int)
    case profile(UserSnapshot)
    case created(CallSnapshot)
    /// `own` is this user's entry in the call.
    case received(CallSnapshot, own: MemberSnapshot)
    case cancelled(CallSnapshot, own: MemberSnapshot)
    case timeout(CallSnapshot)
    case ended(CallSnapshot)
    /// The call has ended on this device, and may go on elsewhere: another device of the user has answered the
    /// invitation or has taken over the call, the user has declined by a notification's button, or has quit without a
    /// request of this device. `own` is this user's entry in the call.
    case overHere(CallSnapshot, own: MemberSnapshot)
    /// The members with a new state, in the order of their invitations. `answers` are the members among these whose
    /// invitations this user made, and who have accepted, rejected or timed out.
    case states(CallID, [MemberSnapshot], answers: [MemberSnapshot] = [])
}
