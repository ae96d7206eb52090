import BellwireClient
import Foundation
import SignalingProtocol
import Synchronization
import Testing

@testable import ZIMCompat

/// The tests run one after another, since a process has a single instance of ZIM.
@Suite(.serialized) struct ZIMTests {
    let call = Scene(alice).call

    private func called() -> CallSnapshot { Scene(bob).call }

    // MARK: Logging in

    @Test func aLoginTellsTheConnectionThenTheCallbackThenWhatWaited() async {
        let app = App()
        app.service.welcomes(with: [called()])
        app.service.answers { request in
            guard case .userUpdate(let update) = request.body else { return [] }
            return [.answer(request, .user(UserSnapshot(userID: bob, name: update.name, isOnline: true)))]
        }
        app.login("bob", name: "Bob")
        await app.log.wait(for: "received from alice")
        #expect(
            app.log.lines == ["connecting activeLogin", "connected success", "login 0", "received from alice"])
        #expect(!app.log.wasToldElsewhere)
    }

    @Test func aNameThatCannotBeStoredIsToldAndFailsNoLogin() async {
        let app = App()
        app.service.answers { [.failure($0, .badRequest)] }
        app.login(name: "x")
        await app.log.wait(for: "error 6000001")
        #expect(app.log.lines.suffix(2) == ["login 0", "error 6000001"])
    }

    @Test func whoIsNotLoggedInIsToldSoAndWhoIsCannotLogInAgain() async {
        let app = App()
        app.zim.callAccept(with: "x", config: ZIMCallAcceptConfig()) { [log = app.log] _, error in
            log.add("accept \(error.code.rawValue)")
        }
        await app.log.wait(for: "accept 6000121")
        _ = await app.online()
        app.login()
        await app.log.wait(for: "login 6000111")
        app.zim.logout()
        await app.log.wait(for: "disconnected success")
        app.zim.callQuit(by: "x", config: ZIMCallQuitConfig()) { [log = app.log] _, _, error in
            log.add("quit \(error.code.rawValue)")
        }
        await app.log.wait(for: "quit 6000121")
        app.login()
        await eventually("a second login", #_sourceLocation) { app.log.lines.count { $0 == "login 0" } == 2 }
    }

    @Test func aLogoutSaysGoodbyeToTheService() async {
        let app = App()
        _ = await app.online()
        app.zim.logout()
        await app.log.wait(for: "disconnected success")
        #expect(app.service.presence.last?.status == .offline(.logout))
    }

    @Test func aRefusedLoginNamesTheTokenAndMayBeTriedAgain() async {
        let app = App()
        app.service.refuses(BellwireTransportError(.refused, "Not authorized"))
        app.login()
        await app.log.wait(for: "login 6000103")
        #expect(app.log.lines == ["connecting activeLogin", "disconnected loginTimeout", "login 6000103"])
        app.login()
        await eventually("another answer", #_sourceLocation) {
            app.log.lines.count { $0 == "login 6000103" } == 2
        }
    }

    @Test func aLoginThatIsRefusedWithATokenThatHasEndedSaysSo() async {
        let app = App()
        app.service.refuses(BellwireTransportError(.refused, "Not authorized"))
        let claims = Data(#"{"sub":"alice","exp":1}"#.utf8).base64EncodedString()
        app.login(token: "e30.\(claims.replacing("=", with: "")).e30")
        await app.log.wait(for: "login 6000106")
        app.login(token: "e30.e30.e30")
        await app.log.wait(for: "login 6000103")
    }

    @Test func aUserIdThatIsNoneIsRefused() async {
        let app = App()
        app.login("")
        await app.log.wait(for: "login 6000001")
    }

    @Test func aTokenOfTheLoginComesBeforeTheProvider() async {
        let asked = Mutex<[String]>([])
        let app = App { user in
            asked.withLock { $0.append(user) }
            return "provided"
        }
        app.login(token: "mine")
        await app.log.wait(for: "login 0")
        #expect(asked.withLock(\.self) == [])
        app.zim.logout()
        await app.log.wait(for: "disconnected success")
        app.login()
        await eventually("the provider is asked", #_sourceLocation) { asked.withLock(\.self) == ["alice"] }
    }

    @Test func aLostConnectionIsToldAndItsReturn() async {
        let app = App()
        let count = await app.online()
        app.service.breaksConnection()
        await app.log.wait(for: "reconnecting loginInterrupted")
        await eventually("connected again", #_sourceLocation) { app.told(since: count).count == 2 }
        #expect(app.told(since: count) == ["reconnecting loginInterrupted", "connected success"])
    }

    @Test func aHandlerIsHeldWeakly() async {
        let app = App()
        var handler: Log? = Log()
        app.zim.setEventHandler(handler)
        #expect(app.zim.handler != nil)
        handler = nil
        #expect(app.zim.handler == nil)
    }

    @Test func thereIsOneInstanceUntilItIsDestroyed() {
        let app = App()
        #expect(ZIM.shared() === app.zim)
        #expect(ZIM.create(with: ZIMAppConfig()) == nil)
        app.zim.destroy()
        #expect(ZIM.shared() == nil)
    }

    // MARK: Lists and users

    @Test func pagesAreAskedForByTheFlagOfTheOneBefore() async {
        let app = App()
        _ = await app.online()
        let call = call
        app.service.answers { request in
            guard case .query(let query) = request.body else { return [] }
            return [.answer(request, .calls([call], cursor: query.cursor == "0" ? "next" : "0"))]
        }
        let log = app.log
        let config = ZIMCallInvitationQueryConfig()
        app.zim.queryCallInvitationList(with: config) { calls, flag, error in
            log.add("page \(calls.map(\.caller)) \(flag != 0) \(error.code.rawValue)")
        }
        await log.wait(for: #"page ["alice"] true 0"#)
        config.nextFlag = 1
        app.zim.queryCallInvitationList(with: config) { calls, flag, error in log.add("last \(flag)") }
        await log.wait(for: "last 0")
        config.nextFlag = 77
        app.zim.queryCallInvitationList(with: config) { calls, flag, error in log.add("bad \(error.code.rawValue)") }
        await log.wait(for: "bad 6000001")
    }

    @Test func unknownUsersAreInTheErrorList() async {
        let app = App()
        _ = await app.online()
        app.service.answers { request in
            guard case .userQuery(let query) = request.body else { return [] }
            let users = [UserSnapshot(userID: bob, name: "Bob", isOnline: true)]
            let unknown = query.userIDs.filter { $0 != bob }.map { UserError(userID: $0, code: .userNotRegistered) }
            return [.answer(request, .users(users, errors: unknown))]
        }
        let log = app.log
        app.zim.queryUsersInfo(by: ["bob", "carol", "", "bob"], config: ZIMUsersInfoQueryConfig()) {
            users, errors, error in
            let found = users.map(\.baseInfo.userName)
            log.add("users \(found) \(errors.map { "\($0.userID):\($0.reason)" }) \(error.code.rawValue)")
        }
        await log.wait(for: #"users ["Bob"] ["carol:6000011", ":6000011"] 0"#)
    }

    @Test func aChangedProfileIsToldAfterItsCallback() async {
        let app = App()
        let count = await app.online()
        app.service.answers { request in
            guard case .userUpdate(let update) = request.body else { return [] }
            return [.answer(request, .user(UserSnapshot(userID: alice, name: update.name, isOnline: true)))]
        }
        app.zim.updateUserName("Al") { [log = app.log] name, error in log.add("\(name) \(error.code.rawValue)") }
        await app.log.wait(for: "profile Al")
        #expect(app.told(since: count) == ["Al 0", "profile Al"])
    }

    @Test func aTokenThatEndsSoonIsToldAfterTheLogin() async {
        let app = App()
        // The service's clock stands at 1 at the welcome.
        app.service.warns(at: 31_001)
        app.login()
        await app.log.wait(for: "tokenWillExpire 31")
        #expect(app.log.lines.suffix(2) == ["login 0", "tokenWillExpire 31"])
    }
}
