import CallCore
import CallStore
import SignalingProtocol

/// Works that are served together: first who came and went, then what happened to calls and peer messages, then requests that
/// ask for what that has done.
package struct Round {
    var presence: [PresenceChange] = []
    var calls = WorkList<CallID, CallEvent>()
    var messages = WorkList<RecordID, MessageEvent>()
    var requests: [ReceivedRequest] = []
    /// The device of each message, presence aside, also of those that could not be used.
    var senders: [DeviceAddress] = []

    /// What a message of a device is about.
    enum Item {
        case presence(PresenceChange)
        case call(CallID, CallEvent)
        case message(RecordID, MessageEvent)
        indirect case user(ReceivedRequest)
        /// It could not be used, and shows that the device is alive.
        case nothing

        /// It begins something, and does not go on with what has begun.
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

        /// The record that it names.
        var record: RecordID? {
            switch self {
            case .call(let callID, _): .call(callID)
            case .message(let id, _): id
            case .presence, .user, .nothing: nil
            }
        }
    }

    /// The parts of a round, as they are served.
    private enum Phase: Int {
        case presence, calls, requests
    }

    /// What one user has in a round: what a user sends is served in the order in which it came. Between users there is no order, as there
    /// is none between their connections.
    struct Place {
        private var phase = Phase.presence
        /// Whose presence the round holds already.
        private var devices: [DeviceAddress] = []
        /// The call on which the user has a request in the round.
        private var callID: CallID?

        /// Takes the user's next message into the round, unless it must wait for what the round does.
        mutating func takes(_ item: Item, from device: DeviceAddress) -> Bool {
            switch item {
            case .presence:
                guard phase == .presence, !devices.contains(device) else { return false }
                devices.append(device)
            case .call(let callID, .request):
                // Calls of one round are decided side by side, but a user who leaves one call and enters another means it
                // in this order.
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

    mutating func add(_ item: Item, from device: DeviceAddress) {
        switch item {
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

    /// The acknowledgments of events and messages in this round.
    var acknowledgments: [(id: RecordID, device: DeviceAddress)] {
        var found: [(RecordID, DeviceAddress)] = []
        for work in calls.works {
            for case .ack(let device, _) in work.events { found.append((.call(work.id), device)) }
        }
        for work in messages.works { for case .ack(let device) in work.events { found.append((work.id, device)) } }
        return found
    }

    /// The deadline of a record, before what else there is on it.
    mutating func addDeadline(of id: RecordID) {
        if let callID = id.callID { calls.append(.deadline, to: callID) } else { messages.append(.deadline, to: id) }
    }
}
