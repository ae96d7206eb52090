import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol: "Races have one winner, and the loser is told which: accept against cancel, accept on two
/// devices, accept against timeout. The store decides, not arrival order at a coordinator."
///
/// The store serialises: the act that is committed first is judged first, so that each order is a test.
@Suite struct RaceTests {
    /// The acts that may happen to Bob's invitation in the same instant.
    enum Act: String, CaseIterable, CustomTestStringConvertible {
        case acceptOnPhone, acceptOnWeb, rejectOnTablet, cancel, expiry, callerLogout

        var testDescription: String { rawValue }

        var outcome: MemberState {
            switch self {
            case .acceptOnPhone, .acceptOnWeb: .accepted
            case .rejectOnTablet: .rejected
            case .cancel, .callerLogout: .cancelled
            case .expiry: .timeout
            }
        }

        /// Returns nil when the act was served, or when the act is no request.
        func perform(in scene: Scene) -> SignalingError? {
            switch self {
            case .acceptOnPhone: return scene.refusal(.accept, by: bob, on: phone)
            case .acceptOnWeb: return scene.refusal(.accept, by: bob, on: web)
            case .rejectOnTablet: return scene.refusal(.reject, by: bob, on: tablet)
            case .cancel: return scene.refusal(.cancel([bob]), by: alice)
            case .expiry: scene.serveDeadlines()
            case .callerLogout: scene.goOffline(alice, .logout)
            }
            return nil
        }
    }

    @Test(arguments: CallMode.allCases, Act.allCases)
    func theFirstToBeCommittedWinsAndNobodyAfterItChangesTheMember(mode: CallMode, winner: Act) throws {
        for loser in Act.allCases where loser != winner {
            // Carol keeps the call alive, so that the outcome does not hide behind the end of the call.
            let scene = try Scene(mode, [bob, carol])
            scene.passUnserved(60 * seconds)
            scene.beat(alice, bob)
            #expect(winner.perform(in: scene) == nil)
            let bobs = try #require(scene.call.member(bob))
            #expect(bobs.state == winner.outcome, "\(winner) before \(loser)")
            _ = loser.perform(in: scene)
            #expect(scene.call.member(bob) == bobs, "\(winner) before \(loser)")
        }
    }

    @Test(arguments: CallMode.allCases)
    func anAcceptAfterTheCancelIsToldOfTheCancel(mode: CallMode) throws {
        let scene = try Scene(mode)
        try scene.cancel()
        let error = scene.refusal(.accept, by: bob)
        #expect(error?.code == .callEnded)
        #expect(error?.state == "cancelled")
    }

    @Test(arguments: CallMode.allCases)
    func aCancelAfterTheAcceptIsToldOfTheAccept(mode: CallMode) throws {
        let scene = try Scene(mode)
        try scene.accept(bob)
        let error = scene.refusal(.cancel, by: alice)
        #expect(error?.code == .invalidState)
        #expect(error?.state == "accepted")
    }

    @Test(arguments: CallMode.allCases, [Request.Body.accept, .reject])
    func theSecondDeviceIsToldThatTheUserAnsweredElsewhere(mode: CallMode, late: Request.Body) throws {
        let accepted = try Scene(mode)
        try accepted.accept(bob, on: phone)
        #expect(accepted.refusal(late, by: bob, on: web)?.code == .answeredElsewhere)
        let rejected = try Scene(mode)
        try rejected.reject(bob, on: phone)
        #expect(rejected.refusal(late, by: bob, on: web)?.code == .answeredElsewhere)
    }

    @Test(arguments: CallMode.allCases)
    func anAcceptAfterTheExpiryIsToldOfTheTimeout(mode: CallMode) throws {
        let scene = try Scene(mode) { $0.timeout = 10 }
        scene.pass(10 * seconds)
        let error = scene.refusal(.accept, by: bob)
        #expect(error?.code == .callEnded)
        #expect(error?.state == "timeout")
    }

    @Test func anExpiryAfterTheAcceptChangesNothing() throws {
        let scene = try Scene(.advanced) { $0.timeout = 10 }
        scene.passUnserved(10 * seconds)
        try scene.accept(bob)
        let before = scene.call
        scene.serveDeadlines()
        #expect(scene.call == before)
    }

    @Test func anAcceptAgainstTheEndIsToldThatTheCallEnded() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(carol)
        try scene.end(by: carol)
        let error = scene.refusal(.accept, by: bob)
        #expect(error?.code == .callEnded)
        #expect(error?.state == "inviting")
    }
}
