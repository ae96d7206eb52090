import CallCore
import CallStore
import SignalingProtocol

/// The queued requests that are served together: first presence, then requests on calls and peer messages, then
/// requests about users, since these may ask for results of the earlier requests.
package struct Batch {
    var presence: [PresenceChange] = []
    var calls = WorkList<CallID, CallEvent>()
    var messages = WorkList<RecordID, MessageEvent>()
    var requests: [ReceivedRequest] = []
    /// The device of each message except presence, including messages that could not be used.
    var senders: [DeviceAddress] = []

    /// The parts of a batch, in serving order.
    private enum Phase: Int {
        case presence, calls, requests
    }

    /// A user's part of a batch. The messages of a user are served in the order of their arrival. Messages of
    /// different users have no order, just as their connections have none.
    struct UserPart {
        private var phase = Phase.presence
        /// The devices with a presence change in the batch.
        private var devices: [DeviceAddress] = []
        /// The call that the user's requests in the batch are about.
        private var callID: CallID?

        /// Adds the user's next message to the batch. Returns false when the message must wait for the batch to end.
        mutating func takes(_ content: RequestContent, from device: DeviceAddress) -> Bool {
            switch content {
            case .presence:
                guard phase == .presence, !devices.contains(device) else { return false }
                devices.append(device)
            case .call(let callID, .request):
                // The calls of a batch are decided independently, but a user that leaves a call and enters another call
                // wants the two requests served in this order.
                guard enters(.calls), self.callID == nil || self.callID == callID else { return false }
                self.callID = callID
            case .call, .message: return enters(.calls)
            case .user: return enters(.requests)
            case .nothing: break
            }
            return true
        }

        private mutating func enters(_ phase: Phase) -> Bool {
            guard phase.rawValue >= self.phase.rawValue else { return false }
            self.phase = phase
            return true
        }
    }

    mutating func add(_ content: RequestContent, from device: DeviceAddress) {
        switch content {
        case .presence(let change):
            presence.append(change)
            return
        case .call(let callID, let event): calls.append(event, to: callID)
        case .message(let id, let event): messages.append(event, to: id)
        case .user(let received): requests.append(received)
        case .nothing: break
        }
        senders.append(device)
    }

    /// The acks of events and peer messages in this batch.
    var acknowledgments: [(id: RecordID, device: DeviceAddress)] {
        var found: [(RecordID, DeviceAddress)] = []
        for work in calls.works {
            for case .ack(let device, _) in work.events { found.append((.call(work.id), device)) }
        }
        for work in messages.works { for case .ack(let device) in work.events { found.append((work.id, device)) } }
        return found
    }

    /// Adds the deadline of a record, before the record's other events.
    mutating func addDeadline(of id: RecordID) {
        if let callID = id.callID { calls.append(.deadline, to: callID) } else { messages.append(.deadline, to: id) }
    }
}
