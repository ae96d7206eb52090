import CallCore
import SignalingProtocol
import Testing

/// Brings a call into a situation of the tables by events alone, so that each situation can happen.
enum Situation {
    /// Bob, invited with Carol by Alice, in the named state; the call then goes on or ends.
    static func invitee(mode: String, call: String, state: String) throws -> Scene {
        let scene = try Scene(CallMode(rawValue: mode)!, [bob, carol], busy: state == "busy" ? [bob] : []) { invite in
            invite.notReceivedCheck = state == "notYetReceived"
            invite.ifBusy = state == "busy" ? .reject : .ring
            // The invitation expires before any member becomes silent for too long.
            invite.timeout = state == "timeout" ? 10 : 60
        }
        if state == "timeout" { try scene.accept(carol) }
        try bring(bob, to: state, in: scene)
        switch call {
        case "hungUp": try scene.end(by: alice)
        case "over": try finish(scene)
        default: #expect(scene.call.isLive)
        }
        return try checked(scene, bob, state, call)
    }

    /// Alice, who invited Bob alone, and left the call or not.
    static func inviter(mode: String, call: String, own: String, invitee: String) throws -> Scene {
        let staysLive = mode == "advanced" && call != "over"
        let scene = try Scene(CallMode(rawValue: mode)!, busy: invitee == "busy" ? [bob] : []) { invite in
            invite.notReceivedCheck = invitee == "notYetReceived"
            invite.ifBusy = invitee == "busy" ? .reject : .ring
            invite.autoEnd = !staysLive
            invite.timeout = invitee == "timeout" ? 10 : 60
        }
        // In an advanced call that ends by itself, Alice ends the call by leaving.
        if own == "quit", call == "over", invitee == "cancelled" {
            try scene.quit(alice)
        } else {
            try bring(bob, to: invitee, in: scene)
            if own == "quit" { try scene.quit(alice) }
        }
        if call == "hungUp" { try scene.end(by: alice) }
        return try checked(scene, bob, invitee, call)
    }

    static func withPolicy(mode: String, call: String, joinPolicy: JoinPolicy) throws -> Scene {
        let scene = try Scene(CallMode(rawValue: mode)!) { $0.joinPolicy = joinPolicy }
        switch call {
        case "hungUp": try scene.end(by: alice)
        case "over": try scene.reject(bob)
        default: break
        }
        return try checked(scene, bob, call == "over" ? "rejected" : "inviting", call)
    }

    private static func bring(_ user: UserID, to state: String, in scene: Scene) throws {
        switch state {
        case "notYetReceived": scene.pass(5 * seconds)
        case "received": scene.ack(user)
        case "accepted", "accepted-elsewhere": try scene.accept(user)
        case "rejected", "rejected-elsewhere": try scene.reject(user)
        case "cancelled": try scene.cancel([user])
        case "timeout": scene.pass((scene.call.member(user)!.expiresAt! - scene.now))
        case "quit":
            try scene.accept(user)
            try scene.quit(user)
        default: break
        }
    }

    /// Ends the call by the end rules, leaving Bob's state as it is.
    private static func finish(_ scene: Scene) throws {
        if scene.state(carol) == .inviting { try scene.reject(carol) }
        if scene.call.isLive { try scene.quit(scene.state(carol) == .accepted ? carol : alice) }
    }

    /// Checks that the situation is the situation that the table names.
    private static func checked(_ scene: Scene, _ user: UserID, _ state: String, _ call: String) throws -> Scene {
        let plain = state == "busy" ? "rejected" : String(state.prefix { $0 != "-" })
        try #require(scene.state(user)?.rawValue == plain)
        try #require(scene.call.isLive == (call == "live"))
        try #require((scene.call.endReason == .hangup) == (call == "hungUp"))
        return scene
    }
}
