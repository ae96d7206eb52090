import BellwireTestKit
import Testing

@testable import ZegoCallCompat

/// A cancel right behind the start of its call.
struct CancelTests {
    private typealias Three = (alice: Party, bob: Party, carol: Party)

    private static func three(_ service: TestService, losing count: Int) async throws -> Three {
        (
            try await Party("alice", service, losing: count).connected(), try await Party("bob", service).connected(),
            try await Party("carol", service).connected()
        )
    }

    /// The start arrives after the cancel, since the lost start is sent again.
    @Test(.timeLimit(.minutes(1))) func aCancelOfOneOfSeveralLeavesTheOthersRinging() async throws {
        let service = TestService()
        let (alice, bob, carol) = try await Self.three(service, losing: 1)
        try alice.call(bob, carol)
        try alice.cancel(bob)
        #expect(try await alice.told.heard(3) == ["connected 0", API_Start_Call, API_Cancel_Call])
        #expect(try await carol.told.heard(2) == ["connected 0", Notify_Call_Invited])
        #expect(try await bob.told.heard(3) == ["connected 0", Notify_Call_Invited, Notify_Call_Canceled])
    }

    /// The service answers the cancel with the start, or when the cancel is sent again after the start: either of the
    /// two may be answered first.
    @Test(.timeLimit(.minutes(1))) func aCancelOfTheOnlyOneDoesNotWait() async throws {
        let service = TestService()
        let alice = try await Party("alice", service, losing: 1).connected()
        let bob = try await Party("bob", service).connected()
        try alice.call(bob)
        try alice.cancel(bob)
        #expect(Set(try await alice.told.heard(3)) == ["connected 0", API_Start_Call, API_Cancel_Call])
        try alice.ask(API_Accept_Call)
        _ = try await alice.told.heard(4)
        #expect(try await bob.told.heard(1) == ["connected 0"])
    }

    @Test(.timeLimit(.minutes(1))) func moreCancelsThanThereCanBeCalleesAreRefused() async throws {
        let service = TestService()
        let (alice, bob, carol) = try await Self.three(service, losing: .max)
        try alice.call(bob, carol)
        for _ in 0...HeldCancels.most { try alice.cancel(bob) }
        #expect(try await alice.told.heard(2) == ["connected 0", "\(API_Cancel_Call) 1001"])
        alice.network.loseNoMore()
        #expect(try await alice.told.heard(HeldCancels.most + 3)[2...3] == [API_Start_Call, API_Cancel_Call])
    }

    @Test(.timeLimit(.minutes(1))) func aCancelThatWaitsFailsWithItsConnection() async throws {
        let service = TestService()
        let (alice, bob, carol) = try await Self.three(service, losing: .max)
        try alice.call(bob, carol)
        try alice.cancel(bob)
        alice.connection.disconnect()
        let told = try await alice.told.heard(3)
        #expect(Set(told) == ["connected 0", "\(API_Start_Call) 1005", "\(API_Cancel_Call) 1005"])
    }

    /// The start is tried for 10 s.
    @Test(.timeLimit(.minutes(1))) func aCancelDoesNotWaitForEverForAnAnswer() async throws {
        let service = TestService()
        let (alice, bob, carol) = try await Self.three(service, losing: .max)
        try alice.call(bob, carol)
        try alice.cancel(bob)
        #expect(try await alice.told.heard(3)[1...] == ["\(API_Start_Call) 1004", "\(API_Cancel_Call) 1001"])
    }

    /// The caller is in a call already, and starts a second call.
    @Test(.timeLimit(.minutes(1))) func aCancelOfACallThatIsRefusedFails() async throws {
        let service = TestService()
        let (alice, bob, carol) = try await Self.three(service, losing: 0)
        try alice.ask(
            API_Start_Call,
            [
                "call_id": "first" as AnyObject, "caller": ["id": "alice", "name": ""] as AnyObject,
                "callees": [["id": "dave", "name": ""]] as AnyObject, "type": 1 as AnyObject,
            ])
        _ = try await alice.told.heard(2)
        try alice.call(bob, carol)
        try alice.cancel(bob)
        #expect(try await alice.told.heard(4)[2...] == ["\(API_Start_Call) 2001", "\(API_Cancel_Call) 1001"])
    }
}
