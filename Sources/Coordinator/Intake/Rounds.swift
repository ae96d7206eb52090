import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Messages that are served together: first who came and went, then what happened to calls and peer messages, then requests that
/// ask for what that has done.
struct Round {
    var presence: [PresenceChange] = []
    var calls = WorkList<CallID, CallEvent>()
    var messages = WorkList<RecordID, MessageEvent>()
    var requests: [ReceivedRequest] = []
    /// The device of each message, presence aside, also of those that could not be used.
    var senders: [DeviceAddress] = []
}

/// Puts a batch into as few rounds as can be: what a user sends is served in the order in which it came. Between users there is no
/// order, as there is none between their connections.
struct Rounds {
    /// What a message of a device is about.
    enum Item {
        case call(CallID, CallEvent)
        case message(RecordID, MessageEvent)
        case user(ReceivedRequest)
    }

    /// The parts of a round, as they are served.
    private enum Phase: Int {
        case presence, calls, requests
    }

    /// Where the last message of a user went.
    private struct Place {
        var round = 0
        var phase = Phase.presence
        /// Whose presence the round holds already.
        var devices: [DeviceAddress] = []
        /// The call on which the user has a request in the round.
        var callID: CallID?
    }

    private(set) var all: [Round] = []
    private var places: [UserID: Place] = [:]

    mutating func append(_ change: PresenceChange) {
        let device = change.session.device
        let round = place(device.userID, .presence) { $0.devices.contains(device) }
        places[device.userID]?.devices.append(device)
        all[round].presence.append(change)
    }

    /// A message of this device; nil for one that cannot be used.
    mutating func append(_ item: Item?, from device: DeviceAddress) {
        let round: Int
        switch item {
        case .call(let callID, let event):
            if case .request = event {
                // Calls of one round are decided side by side, but a user who leaves one call and enters another means it
                // in this order.
                round = place(device.userID, .calls) { $0.callID != nil && $0.callID != callID }
                places[device.userID]?.callID = callID
            } else {
                round = place(device.userID, .calls)
            }
            all[round].calls.append(event, to: callID)
        case .message(let id, let event):
            round = place(device.userID, .calls)
            all[round].messages.append(event, to: id)
        case .user(let received):
            round = place(device.userID, .requests)
            all[round].requests.append(received)
        case nil: round = place(device.userID, places[device.userID]?.phase ?? .presence)
        }
        all[round].senders.append(device)
    }

    /// In which round the user's next message is served. `isFull`: the round has no place for it beside the user's others.
    private mutating func place(
        _ user: UserID, _ phase: Phase, isFull: (Place) -> Bool = { _ in false }
    ) -> Int {
        var place = places[user] ?? Place()
        if phase.rawValue < place.phase.rawValue || phase == place.phase && isFull(place) {
            place = Place(round: place.round + 1)
        }
        place.phase = phase
        places[user] = place
        if place.round == all.count { all.append(Round()) }
        return place.round
    }
}
