import BellwireTestKit
import SignalingProtocol
import Synchronization
import Testing

@testable import ZegoCallCompat

/// Apps among each other, with a service in memory.
struct ZegoConnectionTests {
    private static func talking(_ service: TestService) async throws -> (Party, Party) {
        let (alice, bob) = (Party("alice", service), Party("bob", service))
        try await alice.connect()
        try await bob.connect()
        try alice.call(bob)
        _ = try await bob.told.heard(2)
        try bob.ask(API_Accept_Call)
        #expect(try await bob.told.heard(3) == ["connected 0", Notify_Call_Invited, API_Accept_Call])
        #expect(try await alice.told.heard(3) == ["connected 0", API_Start_Call, Notify_Call_Accept])
        return (alice, bob)
    }

    @Test(.timeLimit(.minutes(1))) func anEndIsToldToTheOther() async throws {
        let service = TestService()
        let (alice, bob) = try await Self.talking(service)
        try bob.ask(API_End_Call)
        #expect(try await alice.told.heard(4).last == Notify_Call_End)
        #expect(try await bob.told.heard(4).last == API_End_Call)
    }

    /// The heartbeats of the former app have ended with the app, and the service still counts the user in.
    @Test(.timeLimit(.minutes(1))) func anAppThatIsStartedAgainInACallMakesAnother() async throws {
        let service = TestService()
        let (alice, _) = try await Self.talking(service)
        let restarted = try await Party("bob", service).connected()
        try restarted.ask(
            API_Start_Call,
            [
                "call_id": "another" as AnyObject, "caller": ["id": "bob", "name": ""] as AnyObject,
                "callees": [["id": "carol", "name": ""]] as AnyObject, "type": 1 as AnyObject,
            ])
        #expect(try await restarted.told.heard(2) == ["connected 0", API_Start_Call])
        #expect(try await alice.told.heard(4).last == Notify_Call_End)
    }

    @Test(.timeLimit(.minutes(1))) func aCancelThatCameTooLateEndsTheCall() async throws {
        let service = TestService()
        let (alice, bob) = try await Self.talking(service)
        try alice.cancel(bob)
        #expect(try await alice.told.heard(4).last == API_Cancel_Call)
        #expect(try await bob.told.heard(4).last == Notify_Call_End)
    }

    @Test(.timeLimit(.minutes(1))) func anAppThatDoesNotBeatIsTimedOut() async throws {
        var timings = TestService.Timings()
        timings.heartbeatTimeout = .seconds(2)
        let service = TestService(timings: timings)
        let (alice, bob) = try await Self.talking(service)
        var heard = try await alice.told.heard(3)
        while !heard.contains(Notify_Call_Timeout) {
            try alice.ask(API_Call_Heartbeat)
            heard = try await alice.told.heard(heard.count + 1)
            #expect(!heard.contains(Notify_Call_End))
            try await Task.sleep(for: .milliseconds(100))
        }
        try bob.ask(API_Call_Heartbeat)
        #expect(try await bob.told.heard(4).last == "\(API_Call_Heartbeat) 2001")
    }

    @Test(.timeLimit(.minutes(1))) func anEndThatWasMissedIsToldAfterwards() async throws {
        let service = TestService()
        let (alice, bob) = try await Self.talking(service)
        service.breakConnections(of: "bob")
        try alice.ask(API_End_Call)
        #expect(try await bob.told.heard(4).last == Notify_Call_End)
    }

    @Test(.timeLimit(.minutes(1))) func afterDisconnectNobodyAsks() async throws {
        let service = TestService()
        let alice = Party("alice", service)
        try alice.ask(API_End_Call)
        #expect(try await alice.told.heard(1) == ["\(API_End_Call) 1005"])
    }

    @Test(.timeLimit(.minutes(1))) func pushTokensAreRegisteredWithEachConnectionAndEndWithTheLast() async throws {
        let service = TestService()
        let alice = Party("alice", service)
        func sent(_ count: Int) async throws -> [Request.Body] {
            while alice.network.pushRequests.withLock(\.count) < count { try await Task.sleep(for: .milliseconds(2)) }
            return alice.network.pushRequests.withLock { $0.map(\.body) }
        }
        func register(_ platform: PushPlatform, _ app: String, _ token: String) -> Request.Body {
            .pushRegister(.init(platform: platform, app: AppName(app)!, target: .token(token)))
        }
        alice.connection.set(.apnsVoIP, [0x0A, 0xFF], true)
        try await alice.connect()
        let voip = register(.apnsVoIP, "default", "0aff")
        #expect(try await sent(1) == [voip])
        alice.connection.set(.apns, [0x01], false)
        let apns = register(.apns, "sandbox", "01")
        #expect(try await sent(3).suffix(2) == [apns, voip])
        service.breakConnections(of: "alice")
        #expect(try await sent(5).suffix(2) == [apns, voip])
        alice.connection.disconnect()
        #expect(try await sent(6).last == .pushUnregister(.init()))
    }

    @Test(.timeLimit(.minutes(1))) func whoseDeviceIDIsTakenOverIsNotLoggedIn() async throws {
        let service = TestService()
        let (first, second) = (Party("alice", service), Party("alice", service))
        try await first.connect()
        try await second.connect()
        var heard = try await first.told.heard(1)
        // The loop asks until the first connection answers that there is no such call.
        while heard.last != "\(API_Call_Heartbeat) 1005" {
            try first.ask(API_Call_Heartbeat)
            heard = try await first.told.heard(heard.count + 1)
        }
        try second.ask(API_Call_Heartbeat)
        #expect(try await second.told.heard(2).last == "\(API_Call_Heartbeat) 1001")
    }
}
