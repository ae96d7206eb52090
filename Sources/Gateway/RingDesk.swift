import Delivery
import SignalingProtocol
import Synchronization

/// The request of a woken device (docs/protocol.md, section 7, Ring check).
struct RingQuestion: Sendable {
    let callID: CallID
    let device: DeviceAddress
    let key: String
    /// Whether the device rejects the invitation.
    let isRejected: Bool
}

/// Checks the keys of ring checks, and hands ring checks with a valid key to a coordinator. A wrong key causes no work
/// for the store or a coordinator. May be used on any thread.
final class RingDesk: Sendable {
    private let secret = Mutex<[UInt8]?>(nil)
    private let relay: Inbox<AskedRequest>

    init(_ relay: Inbox<AskedRequest>) { self.relay = relay }

    /// Whether the deployment's secret, which never changes, is known.
    var isReady: Bool { secret.withLock { $0 != nil } }

    func learn(_ secret: [UInt8]) { self.secret.withLock { $0 = secret } }

    /// Serves a ring check; throws `unavailable` before the desk is ready.
    func take(_ question: RingQuestion, _ asker: Asker, newID: () -> RequestID) throws(Problem) {
        guard let secret = secret.withLock(\.self) else { throw .unavailable }
        let (user, device) = (question.device.userID, question.device.deviceID)
        guard
            let invitation = RingKey.invitation(
                of: question.key, secret: secret, callID: question.callID, user: user, device: device)
        else { throw .wrongRingKey }
        let check = Request.RingCheck(
            callID: question.callID, device: device, invitation: invitation, isRejected: question.isRejected)
        let request = RelayedRequest(
            device: DeviceAddress(userID: user, deviceID: .server),
            payload: UpMessage.request(Request(id: newID(), body: .ringCheck(check))).encoded(), answer: .ring)
        guard relay.post(AskedRequest(request: request, asker: asker)) else { throw .overloaded }
    }
}
