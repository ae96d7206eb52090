internal import ZegoCallProtocol

/// A notification for the app, in the form of document 003.
enum ToldNotification: Equatable, Sendable {
    case invited(ZegoCall)
    case canceled(callID: String, caller: String, callee: String)
    case accepted(callID: String, callee: String)
    case declined(callID: String, callee: String, ZegoCall.Decline)
    case ended(callID: String, by: String)
    case timedOut(callID: String, user: String)

    var path: String {
        switch self {
        case .invited: Notify_Call_Invited
        case .canceled: Notify_Call_Canceled
        case .accepted: Notify_Call_Accept
        case .declined: Notify_Call_Decline
        case .ended: Notify_Call_End
        case .timedOut: Notify_Call_Timeout
        }
    }

    var parameter: [String: Any] {
        switch self {
        case .invited(let call):
            // The vendor's client reads `call_type`, but the vendor's document has `type`.
            [
                "call_id": call.id, "caller": call.caller.parameter, "callees": call.callees.map(\.parameter),
                "type": call.kind.number, "call_type": call.kind.number,
            ]
        case .canceled(let callID, let caller, let callee):
            ["call_id": callID, "caller_id": caller, "callee_id": callee]
        case .accepted(let callID, let callee): ["call_id": callID, "callee_id": callee]
        case .declined(let callID, let callee, let type):
            ["call_id": callID, "callee_id": callee, "type": type.number]
        case .ended(let callID, let user), .timedOut(let callID, let user): ["call_id": callID, "id": user]
        }
    }
}
