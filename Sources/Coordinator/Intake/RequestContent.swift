import CallCore
import SignalingProtocol

/// The content of a queued request: of a device's message that waits to be served.
enum RequestContent {
    case presence(PresenceChange)
    case call(CallID, CallEvent)
    case message(RecordID, MessageEvent)
    indirect case user(ReceivedRequest)
    /// A message that could not be used, but shows that the device is alive.
    case nothing

    /// Whether the message begins new work, rather than continue work that has begun.
    var isNew: Bool {
        switch self {
        case .call(_, .request(let received)):
            switch received.request.body {
            case .accept, .reject, .cancel, .join, .quit, .end, .ringCheck: false
            default: true
            }
        case .message(_, .send), .user: true
        case .call, .message, .presence, .nothing: false
        }
    }

    /// The record that the message names.
    var record: RecordID? {
        switch self {
        case .call(let callID, _): .call(callID)
        case .message(let id, _): id
        case .presence, .user, .nothing: nil
        }
    }
}
