import SignalingProtocol

/// Alice calls Bob at 100 ms, with ten seconds to answer; his phone and his web rang, and she knows that.
struct Ringing {
    var tale = Tale()
    let invited: CallSnapshot
    let received: CallSnapshot

    init(mode: CallMode = .common, notReceivedAfter: Int? = nil) {
        invited = invitation(mode: mode)
        received = invited.then("bob", .received, at: 110)
        tale.online("alice/phone", "bob/phone", "bob/web")
        tale.at(99)
        tale.ask("alice/phone", "invite", invited.invite(notReceivedAfter: notReceivedAfter))
        tale.at(102)
        tale.ok("alice/phone", "invite", invited)
        tale.told("bob/phone", .invited, invited)
        tale.told("bob/web", .invited, invited)
        tale.at(112)
        tale.told("alice/phone", .userStateChanged, received)
    }

    /// Bob accepts on his phone at 2 s, and every device is told.
    var accepted: CallSnapshot { received.then("bob", .accepted, on: "phone", at: 2_000) }

    mutating func accept(telling: Bool = true) {
        tale.at(1_995)
        tale.ask("bob/phone", "accept", received.accept)
        tale.at(2_005)
        tale.ok("bob/phone", "accept", accepted)
        if telling {
            tale.told("alice/phone", .userStateChanged, accepted)
            tale.told("bob/web", .handledElsewhere, accepted)
        }
    }

    mutating func settle() {
        tale.at(40_000)
        tale.settled()
    }
}
