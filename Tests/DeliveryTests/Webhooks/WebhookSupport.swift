import CallCore
import Foundation
import SignalingProtocol

@testable import Delivery

let web = DeviceID("web")!

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// A request of the user at `now`.
func acting(_ user: UserID, _ device: DeviceID = phone, now: Milliseconds = start) -> CallMachine.Acting {
    let address = DeviceAddress(userID: user, deviceID: device)
    return CallMachine.Acting(key: RequestKey(device: address, requestID: RequestID("r")!), now: now)
}

/// Alice's invitation on her phone.
func invited(
    _ mode: CallMode = .advanced, _ invitees: [UserID] = [bob], isCancelled: Bool = false, withheld: [UserID] = [],
    notReceivedCheck: Bool = false
) throws -> CallMachine {
    let invite = Request.Invite(invitees: invitees, mode: mode, notReceivedCheck: notReceivedCheck)
    return try CallMachine.invited(
        .init(callID: callID, invite: invite, busy: [], isCancelled: isCancelled), acting(alice),
        .init(profiles: [:], unregistered: [], limited: [], withheld: withheld, pushable: nil), activeElsewhere: nil,
        settings: CallSettings())
}

extension CallMachine {
    mutating func accept(_ user: UserID, now: Milliseconds = start) throws {
        try acceptRequested(.init(callID: callID), acting(user, now: now), activeElsewhere: nil)
    }

    mutating func timePasses(to now: Milliseconds) {
        deadlineReached(.init(now: now, heard: [:], listeningSince: 0, isInviterOnline: false))
    }
}

extension WebhookEvent {
    /// The data as values.
    var json: JSONObject? { (try? JSONParser.parse(data))?.object }

    /// The changes in their order, each in the form `user state`.
    var changes: [String] {
        let changes = json?["changes"]?.array?.compactMap(\.object) ?? []
        return changes.map { "\($0["userID"]?.string ?? "") \($0["state"]?.string ?? "")" }
    }
}

/// The secret of the specification's examples.
let exampleSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
