import BellwireTestKit
import DropInSupport
import Synchronization
import Testing

@testable import ZegoCallCompat

/// An app that calls `connect` while it is connected.
struct ConnectAgainTests {
    private static func ringing(_ service: TestService) async throws -> (Party, Party) {
        let (alice, bob) = (Party("alice", service), Party("bob", service))
        try await alice.connect()
        try await bob.connect()
        try alice.call(bob)
        _ = try await bob.told.heard(2)
        return (alice, bob)
    }

    @Test(.timeLimit(.minutes(1))) func whoseCallRingsGoesOnRinging() async throws {
        let (alice, bob) = try await Self.ringing(TestService())
        bob.connectAgain()
        #expect(try await bob.told.heard(3).last == "again 0")
        try bob.ask(API_Accept_Call)
        #expect(
            try await bob.told.heard(4) == ["connected 0", Notify_Call_Invited, "again 0", API_Accept_Call])
        #expect(try await alice.told.heard(3) == ["connected 0", API_Start_Call, Notify_Call_Accept])
        bob.connectAgain()
        #expect(try await bob.told.heard(5).last == "again 0")
        try alice.ask(API_End_Call)
        #expect(try await bob.told.heard(6).last == Notify_Call_End)
    }

    @Test(.timeLimit(.minutes(1))) func beforeTheFirstIsAnsweredBothAre() async throws {
        let bob = Party("bob", TestService())
        bob.connectAgain()
        bob.connectAgain()
        #expect(try await bob.told.heard(2) == ["again 0", "again 0"])
        try bob.ask(API_Call_Heartbeat)
        #expect(try await bob.told.heard(3).last == "\(API_Call_Heartbeat) 1001")
    }

    @Test(.timeLimit(.minutes(1))) func asSomebodyElseEndsTheFormerConnection() async throws {
        let (_, bob) = try await Self.ringing(TestService())
        bob.connectAgain(as: "carol")
        #expect(try await bob.told.heard(3).last == "again 0")
        // To carol's connection bob is a stranger.
        try bob.ask(API_Accept_Call)
        #expect(try await bob.told.heard(4).last == "\(API_Accept_Call) 1002")
    }

    /// The tablet rings like every device that logs in.
    @Test(.timeLimit(.minutes(1))) func onAnotherDeviceEndsTheFormerConnection() async throws {
        let (alice, bob) = try await Self.ringing(TestService())
        bob.connectAgain(on: "tablet")
        #expect(try await bob.told.heard(4)[2...] == ["again 0", Notify_Call_Invited])
        #expect(try await alice.told.heard(2) == ["connected 0", API_Start_Call])
    }

    @Test(.timeLimit(.minutes(1))) func whileThereIsNoServiceKeepsTheConnectionThatTheAppHas() async throws {
        let service = TestService()
        let (alice, bob) = try await Self.ringing(service)
        bob.network.refuse(true)
        service.breakConnections(of: "bob")
        // The connection counts as present until its end is known.
        var told = try await bob.told.heard(2)
        repeat {
            bob.connectAgain()
            told = try await bob.told.heard(told.count + 1)
        } while told.last != "again 1004"
        bob.network.refuse(false)
        try bob.ask(API_Accept_Call)
        #expect(try await alice.told.heard(3).last == Notify_Call_Accept)
        #expect(try await bob.told.heard(API_Accept_Call).count { $0 == Notify_Call_Invited } == 1)
    }

    @Test(.timeLimit(.minutes(1))) func theTokenProviderThatWasGivenLastIsAsked() async throws {
        let service = TestService()
        let bob = Party("bob", service)
        bob.connectAgain(tokens: "first")
        #expect(try await bob.told.heard(1) == ["again 0"])
        bob.connectAgain(tokens: "second")
        #expect(try await bob.told.heard(2) == ["again 0", "again 0"])
        bob.network.refuse(true)
        service.breakConnections(of: "bob")
        while !bob.network.tokens.withLock({ $0.contains("second") }) { try await Task.sleep(for: .milliseconds(2)) }
        #expect(bob.network.tokens.withLock(\.first) == "first")
    }
}

extension Party {
    fileprivate func connectAgain(as user: String? = nil, on device: String = "phone", tokens: String? = nil) {
        var configuration = BellwireConfiguration(broker: "mqtt://unused")
        configuration.device = device
        if let tokens { configuration.tokenProvider = { _ in tokens } }
        let (told, user) = (told, user ?? self.user)
        connection.connect(configuration, userID: user, userName: "", OnMain { told.add("again \($0?.code ?? 0)") })
    }
}
