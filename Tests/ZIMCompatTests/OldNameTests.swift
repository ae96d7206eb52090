import BellwireClient
import Foundation
import SignalingProtocol
import Synchronization
import Testing

@testable import ZIMCompat

/// An app of ZIM up to 2.8, which knows none of the later names.
private final class OldApp: ZIMEventHandler, Sendable {
    let log = Log()

    func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {
        log.add("received from \(info.inviter)")
    }
    func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String) {
        log.add("\(callID) accepted by \(info.invitee): \(info.extendedData)")
    }
    func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String) {
        log.add("\(callID) rejected by \(info.invitee): \(info.extendedData)")
    }
    func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String) {
        log.add("\(callID) not answered by \(invitees.joined(separator: " "))")
    }
    func zim(_ zim: ZIM, callInvitationTimeout callID: String) { log.add("\(callID) timeout") }
}

/// An app that knows the old names and the new names.
private final class BothApp: ZIMEventHandler, Sendable {
    let log = Log()

    func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String) {
        log.add("accepted by \(info.invitee)")
    }
    func zim(_ zim: ZIM, callInvitationTimeout callID: String) { log.add("old timeout") }
    func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {
        log.add("timeout \(info.mode)")
    }
    func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {
        log.add("states " + info.callUserList.map { "\($0.userID):\($0.state)" }.joined(separator: " "))
    }
}

/// The tests are in the same suite as the others, since a process has a single instance of ZIM.
extension ZIMTests {
    /// A call of alice, who is logged in, with these invitees.
    private func calling(_ app: App, _ others: UserID..., mode: CallMode = .common) async -> Scene {
        let scene = Scene(alice, mode: mode, others: others)
        _ = await app.online()
        let (made, log) = (scene.call, app.log)
        app.service.answers { request in
            guard case .invite(let invite) = request.body else { return [] }
            var call = made
            call.callID = invite.callID!
            return [.success(request, call)]
        }
        let callID = Mutex<String?>(nil)
        app.zim.callInvite(with: ["bob"], config: ZIMCallInviteConfig()) { id, _, _ in
            callID.withLock { $0 = id }
            log.add("invite")
        }
        await log.wait(for: "invite")
        var told = scene
        told.call.callID = CallID(callID.withLock { $0! })!
        return told
    }

    @Test func anInviterOfTheOldNamesIsToldOfAnswersAndOfThoseWhoDoNotAnswer() async {
        let (app, old) = (App(), OldApp())
        var scene = await calling(app, carol, UserID("dave")!, UserID("erin")!)
        app.zim.setEventHandler(old)
        let id = scene.call.callID.string
        scene.move(bob, to: .received)
        scene.move(bob, to: .accepted, on: tablet, extendedData: "yes")
        app.service.sends(.event(.userStateChanged, scene.call))
        scene.move(carol, to: .rejected, on: tablet, extendedData: "busy")
        app.service.sends(.event(.userStateChanged, scene.call))
        scene.move(UserID("dave")!, to: .timeout)
        scene.move(UserID("erin")!, to: .timeout)
        app.service.sends(.event(.userStateChanged, scene.call))
        await old.log.wait(for: "\(id) not answered by dave erin")
        #expect(
            old.log.lines == [
                "\(id) accepted by bob: yes", "\(id) rejected by carol: busy", "\(id) not answered by dave erin",
            ])
        #expect(!old.log.wasToldElsewhere)
    }

    @Test func anInviteeOfTheOldNamesIsToldOfTheTimeoutAndNotOfOthers() async {
        let (app, old) = (App(), OldApp())
        app.zim.setEventHandler(old)
        var scene = Scene(bob, mode: .common, others: [carol])
        app.service.welcomes(with: [scene.call])
        app.login("bob")
        await old.log.wait(for: "received from alice")
        scene.move(carol, to: .accepted, on: tablet)
        app.service.sends(.event(.userStateChanged, scene.call))
        scene.move(bob, to: .timeout)
        app.service.sends(.event(.timeout, scene.call))
        await old.log.wait(for: "call-1 timeout")
        #expect(old.log.lines == ["received from alice", "call-1 timeout"])
    }

    @Test func whoKnowsBothNamesOfAnEventIsToldByTheNewerOne() async {
        let (app, both) = (App(), BothApp())
        app.zim.setEventHandler(both)
        var scene = Scene(bob)
        app.service.welcomes(with: [scene.call])
        _ = await app.online("bob")
        scene.move(bob, to: .timeout)
        app.service.sends(.event(.timeout, scene.call))
        await both.log.wait(for: "timeout advanced")
        #expect(both.log.lines == ["timeout advanced"])
    }

    @Test func theOldNameOfAnAnswerFollowsTheNewOne() async {
        let (app, both) = (App(), BothApp())
        var scene = await calling(app, mode: .advanced)
        app.zim.setEventHandler(both)
        scene.move(bob, to: .accepted, on: tablet)
        app.service.sends(.event(.userStateChanged, scene.call))
        await both.log.wait(for: "accepted by bob")
        // The states at the call's begin may still wait for the main queue when the handler is set.
        #expect(both.log.lines.suffix(2) == ["states bob:accepted", "accepted by bob"])
    }

    /// The answers were given to an earlier run of the app.
    @Test func whatWasAnsweredBeforeThisLoginIsNotToldAgain() {
        var scene = Scene(alice)
        scene.move(bob, to: .accepted, on: tablet)
        #expect(scene.snapshot() == [.states(callID, scene.call.members)])
    }

    @Test func whoJoinsACallAgainAnswersNoInvitation() {
        var scene = Scene.ringing(alice)
        scene.move(bob, to: .accepted, on: tablet)
        #expect(scene.event(.userStateChanged) == [.states(callID, [scene.bob], answers: [scene.bob])])
        scene.move(bob, to: .quit, on: tablet)
        _ = scene.event(.userStateChanged)
        scene.move(bob, to: .accepted, on: tablet)
        #expect(scene.event(.userStateChanged) == [.states(callID, [scene.bob])])
    }

    @Test func whoDidNotInviteIsToldOfNoAnswer() {
        var scene = Scene.ringing(alice)
        scene.call.members[1].invitedBy = carol
        scene.move(bob, to: .accepted, on: tablet)
        #expect(scene.event(.userStateChanged) == [.states(callID, [scene.bob])])
    }

    @Test func aUserWhomTheServiceRejectsAsBusyHasRejected() {
        var scene = Scene(alice)
        scene.move(bob, to: .rejected)
        #expect(scene.answered(isInvite: true).last == .states(callID, scene.call.members, answers: [scene.bob]))
    }

    // MARK: Rooms

    @Test func aRoomIsEnteredAndLeftHere() async {
        let app = App()
        let (zim, log) = (app.zim, app.log)
        let room = { @Sendable (id: String) in
            let room = ZIMRoomInfo()
            (room.roomID, room.roomName) = (id, "Room")
            return room
        }
        let entered: @Sendable (ZIMRoomFullInfo, ZIMError) -> Void = { room, error in
            log.add("enter \(room.baseInfo.roomID) \(room.baseInfo.roomName) \(error.code.rawValue)")
        }
        let left: @Sendable (String, ZIMError) -> Void = { roomID, error in
            log.add("leave \(roomID) \(error.code.rawValue)")
        }
        zim.enterRoom(with: room("room"), config: ZIMRoomAdvancedConfig(), callback: entered)
        await log.wait(for: "enter room Room 6000121")
        let count = await app.online()
        await MainActor.run {
            for _ in 0..<2 { zim.enterRoom(with: room("room"), config: nil, callback: entered) }
            for _ in 0..<2 { zim.leaveRoom(by: "room", callback: left) }
            zim.createRoom(with: room("room")) { _, error in log.add("create \(error.code.rawValue)") }
            zim.joinRoom(by: "room") { room, error in log.add("join \(room.baseInfo.roomID) \(error.code.rawValue)") }
            zim.enterRoom(with: room(""), config: nil, callback: entered)
            #expect(app.told(since: count) == [])
        }
        await log.wait(for: "enter  Room 6000001")
        #expect(
            app.told(since: count) == [
                "enter room Room 0", "enter room Room 0", "leave room 0", "leave room 6000321", "create 6000303",
                "join room 6000304", "enter  Room 6000001",
            ])
        #expect(app.service.requests.isEmpty && !log.wasToldElsewhere)
    }

    @Test func roomsAreBounded() throws {
        var rooms = Rooms()
        for number in 0..<Rooms.most { try rooms.enter("room \(number)") }
        #expect(throws: Refusal.self) { try rooms.enter("one more") }
        try rooms.enter("room 0")
        try rooms.leave("room 0")
        try rooms.enter("one more")
        #expect(throws: Refusal.self) { try rooms.leave("room 0") }
    }
}

extension Scene {
    fileprivate var bob: MemberSnapshot { call.members[1] }
}
