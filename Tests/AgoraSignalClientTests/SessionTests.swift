import BellwireClientCore
import DropInSupport
import Foundation
import SignalingProtocol
import Synchronization
import Testing

@testable import AgoraSignalClient

/// The news that the app is told, and the order of the news.
struct SessionTests {
    private final class App: NSObject, ISignalClientListener, ICallRtmManagerListener, Sendable {
        let told = Mutex<[String]>([])

        func tell(_ what: String) { told.withLock { $0.append(what) } }
        func onMessageReceive(message: String) { tell("message \(message)") }
        func onConnected() { tell("connected") }
        func onDisconnected() { tell("disconnected") }
        func onTokenPrivilegeWillExpire(channelName: String) { tell("token") }

        /// Waits until the app was told this number of lines.
        func heard(_ count: Int) async throws -> [String] {
            while told.withLock(\.count) < count { try await Task.sleep(for: .milliseconds(2)) }
            return told.withLock(\.self)
        }
    }

    private let service = FakeService()
    private let app = App()
    private let session: SignalSession

    init() {
        var configuration = BellwireConfiguration(broker: "mqtt://unused")
        configuration.device = "phone"
        session = SignalSession(configuration, userID: "alice", transport: service)
        session.audience.add(app)
        session.audience.delegate = app
    }

    private func logIn() async throws {
        let app = app
        session.login(OnMain { app.tell($0 == nil ? "login" : "no login") })
        _ = try await app.heard(2)
    }

    private func send(_ text: String, to peer: String = "bob") {
        let app = app
        session.send(text, to: peer, OnMain { app.tell("\(text) \($0?.code ?? 0)") })
    }

    /// Waits until the service has this number of messages.
    private func taken(_ count: Int) async throws -> [JSONObject] {
        while service.sent.count < count { try await Task.sleep(for: .milliseconds(2)) }
        return service.sent
    }

    @Test(.timeLimit(.minutes(1))) func theConnectionIsToldBeforeTheLoginAndThatBeforeWhatWaited() async throws {
        service.holdMessage("waited")
        try await logIn()
        #expect(try await app.heard(3) == ["connected", "login", "message waited"])
        #expect(session.audience.isConnected)
    }

    /// The broker gives no reason for either refusal. An app that logs in twice is told twice.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [(-10, SignalClientError.tokenExpired), (60, SignalClientError.notConnected)])
    func aLoginThatIsRefusedSaysWhetherItsTokenHasEnded(seconds: Int, code: Int) async throws {
        service.refuseConnections()
        session.renew(token(endingIn: seconds))
        for _ in 0..<2 { session.login(OnMain { [app] in app.tell("login \($0?.code ?? 0)") }) }
        #expect(try await app.heard(2) == ["login \(code)", "login \(code)"])
    }

    @Test(.timeLimit(.minutes(1))) func aTokenOfTheProviderThatHasEndedIsNamed() async throws {
        service.refuseConnections()
        let ended = token(endingIn: -10)
        var configuration = BellwireConfiguration(broker: "mqtt://unused")
        configuration.device = "phone"
        configuration.tokenProvider = { _ in ended }
        let session = SignalSession(configuration, userID: "alice", transport: service)
        session.login(OnMain { [app] in app.tell("login \($0?.code ?? 0)") })
        #expect(try await app.heard(1) == ["login \(SignalClientError.tokenExpired)"])
    }

    /// The signature does not count, since no part of this test checks it.
    private func token(endingIn seconds: Int) -> String {
        let end = Int(Date().timeIntervalSince1970) + seconds
        let claims = Data(#"{"sub":"alice","exp":\#(end)}"#.utf8).base64EncodedString()
        return "e30.\(claims.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")).e30"
    }

    @Test(.timeLimit(.minutes(1))) func aReceiptThatComesTwiceIsToldOnce() async throws {
        try await logIn()
        send("first")
        send("second")
        let sent = try await taken(2)
        for json in [sent[0], sent[0], sent[1]] { service.receipt(of: json, .delivered) }
        #expect(try await app.heard(4).dropFirst(2) == ["first 0", "second 0"])
    }

    @Test(.timeLimit(.minutes(1))) func anExpiredMessageIsAnError() async throws {
        try await logIn()
        send("lost")
        service.receipt(of: try await taken(1)[0], .expired)
        #expect(try await app.heard(3).last == "lost \(SignalClientError.notDelivered)")
    }

    @Test(.timeLimit(.minutes(1))) func aRefusedMessageIsAnError() async throws {
        service.refuse("userNotRegistered")
        try await logIn()
        send("refused")
        #expect(try await app.heard(3).last == "refused \(SignalClientError.refused)")
    }

    @Test(.timeLimit(.minutes(1))) func aMessageLivesAsLongAsTheAppWaitsForIt() async throws {
        session.audience.messageTimeout = 7
        try await logIn()
        send("short")
        #expect(try await taken(1)[0]["ttl"]?.integer == 7)
    }

    @Test(.timeLimit(.minutes(1))) func messagesToOnePeerHaveTheirOrderAlsoAcrossALogin() async throws {
        try await logIn()
        send("first")
        service.receipt(of: try await taken(1)[0], .delivered)
        _ = try await app.heard(3)
        session.logout()
        #expect(try await app.heard(4).last == "disconnected")
        session.login(OnMain { [app] in app.tell($0 == nil ? "again" : "no login") })
        _ = try await app.heard(6)
        send("second")
        let sent = try await taken(2)
        #expect(sent.map { $0["seq"]?.integer } == [1, 2])
        #expect(sent[0]["stream"]?.string == sent[1]["stream"]?.string)
    }

    @Test(.timeLimit(.minutes(1))) func aMessageThatComesAgainAfterALogoutIsNotToldAgain() async throws {
        service.holdMessage("waited")
        try await logIn()
        #expect(try await app.heard(3).last == "message waited")
        session.logout()
        _ = try await app.heard(4)
        session.login(OnMain { [app] in app.tell($0 == nil ? "again" : "no login") })
        _ = try await app.heard(6)
        send("after")
        service.receipt(of: try await taken(1)[0], .delivered)
        #expect(try await app.heard(7).dropFirst(3) == ["disconnected", "connected", "again", "after 0"])
    }

    @Test func oldMessagesAreForgotten() {
        var shown = ShownMessages()
        let first = MessageID("first")!
        let isNew = [shown.isNew(first), shown.isNew(first)]
        for number in 1...ShownMessages.most { _ = shown.isNew(MessageID("m\(number)")!) }
        let isNewAgain = shown.isNew(first)
        #expect(isNew == [true, false] && isNewAgain)
    }

    @Test(.timeLimit(.minutes(1))) func aLogoutFailsWhatIsOnItsWay() async throws {
        try await logIn()
        send("under way")
        _ = try await taken(1)
        session.logout()
        #expect(try await app.heard(4).dropFirst(2) == ["under way \(SignalClientError.notLoggedIn)", "disconnected"])
        #expect(!session.audience.isConnected)
    }

    @Test(.timeLimit(.minutes(1))) func aMessageThatIsSentWhileTheConnectionIsBrokenGoesOutAfterwards() async throws {
        try await logIn()
        service.breakConnection()
        #expect(try await app.heard(3).last == "disconnected")
        send("later")
        _ = try await app.heard(4)
        service.receipt(of: try await taken(1)[0], .delivered)
        #expect(try await app.heard(5).dropFirst(3) == ["connected", "later 0"])
    }

    @Test(.timeLimit(.minutes(1))) func aMessageThatCannotLeaveDoesNotBlameThePeer() async throws {
        try await logIn()
        service.refuseConnections()
        service.breakConnection()
        let session = session
        while session.queue.sync(execute: { session.lostReason }) != "Not authorized" {
            try await Task.sleep(for: .milliseconds(2))
        }
        session.audience.messageTimeout = 1
        let app = app
        session.send("kept", to: "bob", OnMain { app.tell("\($0?.code ?? 0) \($0?.localizedDescription ?? "")") })
        let told = try await app.heard(4)
        #expect(told.last == "\(SignalClientError.notDelivered) this device has no connection: Not authorized")
    }

    @Test(.timeLimit(.minutes(1)), arguments: ["", "0", String(repeating: "x", count: 65)])
    func nobodyIsSentTo(_ peer: String) async throws {
        send("nobody", to: peer)
        #expect(try await app.heard(1) == ["nobody -1"])
    }

    @Test(.timeLimit(.minutes(1))) func withoutALoginNothingIsSent() async throws {
        send("early")
        #expect(try await app.heard(1) == ["early \(SignalClientError.notLoggedIn)"])
    }
}
