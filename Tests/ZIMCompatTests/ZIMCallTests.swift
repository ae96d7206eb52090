import BellwireClient
import Foundation
import SignalingProtocol
import Testing

@testable import ZIMCompat

/// The tests of calls, in the same suite, so that the tests run one after another.
extension ZIMTests {
    @Test func anInviteIsMadeAsItsConfigSays() async throws {
        let app = App()
        _ = await app.online()
        let config = ZIMCallInviteConfig()
        config.mode = .advanced
        config.timeout = 0
        config.pushConfig = ZIMPushConfig()
        config.pushConfig?.title = "Alice"
        app.zim.callInvite(with: ["bob"], config: config, callback: nil)
        await eventually("a request", #_sourceLocation) { !app.service.requests.isEmpty }
        guard case .invite(let invite) = try #require(app.service.requests.first).body else {
            Issue.record("no invite")
            return
        }
        #expect(invite.mode == .advanced && !invite.autoEnd && invite.timeout == 90)
        #expect(invite.push == Request.Push(title: "Alice"))
        #expect(!invite.notReceivedCheck && invite.extendedData == nil)
    }

    @Test func aCallbackComesBeforeWhatItBroughtAboutAndNeverFromInsideTheCall() async {
        let app = App()
        let count = await app.online()
        let call = call
        app.service.answers { request in
            guard case .invite(let invite) = request.body, let callID = invite.callID else { return [] }
            var (made, rung) = (call, call)
            (made.callID, rung.callID) = (callID, callID)
            rung.members[1].state = .received
            rung.revision = 2
            // The phone rings before its caller is answered.
            let error = UserError(userID: carol, code: .userNotRegistered)
            return [.event(.userStateChanged, rung), .success(request, made, errors: [error])]
        }
        let log = app.log
        await MainActor.run {
            app.zim.callInvite(with: ["bob", "carol"], config: ZIMCallInviteConfig()) { _, info, error in
                let errors = info.errorUserList.map { "\($0.userID):\($0.reason)" }
                log.add("invite \(error.code.rawValue) \(errors) \(info.errorInvitees.map(\.userID))")
            }
            #expect(app.told(since: count) == [])
        }
        await log.wait(for: "states bob:received")
        #expect(
            app.told(since: count) == [
                #"invite 0 ["carol:6000281"] ["carol"]"#, "created", "states alice:accepted bob:inviting",
                "states bob:received",
            ])
        #expect(!log.wasToldElsewhere)
    }

    @Test func anAppThatWasStartedAgainInACallLeavesItBeforeItMakesAnother() async throws {
        let app = App()
        var scene = Scene(bob)
        scene.move(bob, to: .accepted, on: phone)
        app.service.welcomes(with: [scene.call])
        let orphan = scene.call
        _ = await app.online("bob")
        app.service.answers { request in
            if case .quit = request.body { [.success(request, orphan)] } else { [.failure(request, .rateLimited)] }
        }
        app.zim.callInvite(with: ["carol"], config: ZIMCallInviteConfig(), callback: nil)
        await eventually("two requests", #_sourceLocation) { app.service.requests.count > 1 }
        let bodies = app.service.requests.map(\.body)
        guard case .quit(let quit) = bodies[0], case .invite = bodies[1] else {
            Issue.record("\(bodies)")
            return
        }
        #expect(quit.callID == callID)
    }

    @Test func anInviteAsItsConfigIsMadeRingsFor90Seconds() async throws {
        let app = App()
        _ = await app.online()
        app.zim.callInvite(with: ["bob"], config: ZIMCallInviteConfig(), callback: nil)
        await eventually("a request", #_sourceLocation) { !app.service.requests.isEmpty }
        guard case .invite(let invite) = try #require(app.service.requests.first).body else {
            Issue.record("no invite")
            return
        }
        #expect(invite.timeout == 90 && invite.mode == .common && invite.push == nil)
    }

    @Test func theEndThatAnotherMadeIsToldAlsoWhenOnlyALateAnswerSaysSo() async {
        let app = App()
        var scene = Scene(bob)
        app.service.welcomes(with: [scene.call])
        _ = await app.online("bob")
        await app.log.wait(for: "received from alice")
        scene.move(bob, to: .accepted, on: phone)
        scene.end(by: alice)
        let ended = scene.call
        app.service.answers { request in
            if case .accept = request.body { [.success(request, ended)] } else { [] }
        }
        app.zim.callAccept(with: callID.string, config: ZIMCallAcceptConfig()) { [log = app.log] _, error in
            log.add("accept \(error.code.rawValue)")
        }
        await app.log.wait(for: "ended by alice")
        #expect(app.log.lines.suffix(3) == ["accept 0", "states bob:accepted", "ended by alice"])
    }

    @Test func anInviteWithoutAnAnswerIsTakenBack() async {
        let app = App(requestTime: .milliseconds(50))
        let count = await app.online()
        app.zim.callInvite(with: ["bob"], config: ZIMCallInviteConfig()) { [log = app.log] callID, _, error in
            log.add("invite \(callID) \(error.code.rawValue)")
        }
        await app.log.wait(for: "invite  6000105")
        await eventually("a cancel", #_sourceLocation) { app.service.requests.count == 2 }
        guard case .invite(let invite)? = app.service.requests.first?.body,
            case .cancel(let cancel)? = app.service.requests.last?.body
        else {
            Issue.record("\(app.service.requests)")
            return
        }
        #expect(cancel.callID == invite.callID)
        #expect(app.told(since: count).count == 1)
    }

    @Test func withoutAConnectionThatIsWhyThereIsNoAnswer() async {
        let app = App(requestTime: .milliseconds(50))
        _ = await app.online()
        app.service.refuses(BellwireTransportError(.unreachable, "gone"))
        app.service.breaksConnection()
        await app.log.wait(for: "reconnecting loginInterrupted")
        app.zim.callReject(with: "x", config: ZIMCallRejectConfig()) { [log = app.log] _, error in
            log.add("reject \(error.code.rawValue)")
        }
        await app.log.wait(for: "reject 6000104")
    }

    @Test func wordsThatAreNoIdsAreRefusedHere() async {
        let app = App()
        _ = await app.online()
        let log = app.log
        app.zim.callAccept(with: "no id", config: ZIMCallAcceptConfig()) { _, error in
            log.add("accept \(error.code.rawValue)")
        }
        app.zim.callInvite(with: [""], config: ZIMCallInviteConfig()) { _, _, error in
            log.add("invite \(error.code.rawValue)")
        }
        app.zim.callCancel(with: ["\u{80}"], callID: "x", config: ZIMCallCancelConfig()) { _, failed, error in
            log.add("cancel \(error.code.rawValue) \(failed.count)")
        }
        await log.wait(for: "cancel 6000001 1")
        #expect(log.lines.suffix(3) == ["accept 6000001", "invite 6000001", "cancel 6000001 1"])
        #expect(app.service.requests.isEmpty)
    }

    @Test func aCallThatEndedMeanwhileIsToldAsTheServiceKnowsIt() async {
        let app = App()
        var scene = Scene(bob)
        scene.move(bob, to: .accepted, on: phone)
        app.service.welcomes(with: [scene.call])
        let count = await app.online("bob")
        await app.log.wait(for: "states alice:accepted bob:accepted")
        scene.end(by: alice)
        let ended = scene.call
        app.service.answers { request in
            if case .get = request.body { [.success(request, ended)] } else { [] }
        }
        app.service.welcomes(with: [])
        app.service.breaksConnection()
        await app.log.wait(for: "ended by alice")
        #expect(app.told(since: count).last == "ended by alice")
    }
}
