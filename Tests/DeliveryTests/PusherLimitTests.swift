import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Testing

@testable import Delivery

/// The limits that a push uses up for its device and for other devices, and the limits that it leaves untouched.
@Suite struct PusherLimitTests {
    private let rig = PushRig()
    private var providers: Providers { rig.providers }

    /// Providers take all pushes but `missed`, which they answer with this status.
    private func serve(_ missed: Int) {
        for _ in 0..<20 {
            guard let first = providers.shown.first else { return }
            providers.answer(first.hasPrefix("missed") ? missed : 200)
            rig.turn()
        }
    }

    @Test func retriesDoNotUseUpTheLimit() {
        rig.register("phone", .fcm)
        for number in 0..<14 {
            rig.invite("c\(number)")
            serve(503)
            rig.pass(1_000)
            rig.cancel("c\(number)")
            serve(503)
            for _ in 0..<28 { rig.pass(500); serve(503) }
        }
        for number in 0..<14 {
            let told = rig.told("c\(number)").filter { $0.hasSuffix("limited") }
            #expect(told.isEmpty, "call \(number)")
        }
    }

    @Test func aPhoneRingsWhileOtherPushesAreTriedAgain() {
        rig.register("phone", .fcm)
        for number in 0..<10 {
            rig.invite("c\(number)")
            serve(503)
            rig.pass(1_000)
            rig.cancel("c\(number)")
            serve(503)
            for _ in 0..<80 { rig.pass(500); serve(503) }
        }
        for _ in 0..<240 { rig.pass(500); serve(503) }
        var limited = 0
        for number in 0..<20 {
            rig.invite("now\(number)")
            serve(503)
            if rig.told("now\(number)").contains("ring fcm limited") { limited += 1 }
            for _ in 0..<30 { rig.pass(500); serve(503) }
        }
        #expect(limited == 0)
    }

    @Test func aRingLeavesNotAfterTheInvitationsEnd() throws {
        rig.invite()
        rig.pass(59_950)
        rig.register("phone", .fcm)
        rig.commit("c")
        let request = try #require(providers.open.first)
        #expect(request.handOverBefore! <= 60_000)
    }

    @Test func whatAnotherHasSentIsNotLate() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(503, retryAfter: 5)
        rig.turn()
        let first = rig.pushers[0]
        rig.another()
        rig.pass(6_000)
        providers.answer(200)
        rig.turn()
        rig.pass(55_000)
        rig.expire()
        serve(200)
        rig.pass(100)
        #expect(rig.told() == ["ring fcm failed 503", "ring fcm sent 200", "missed fcm sent 200"])
        // The former worker looks at the call again.
        rig.commit("c", hints: false)
        for _ in 0..<8 { first.committed([.call(CallID("c")!)]); first.turn(rig.clock.boot) }
        rig.turn()
        rig.pass(100)
        #expect(!rig.told().contains("ring fcm late"))
    }

    @Test func aStopIsNeverLimited() {
        rig.register("phone", .fcm)
        for number in 0..<10 { rig.invite("c\(number)"); serve(200) }
        rig.accept("c0", on: "desk")
        #expect(providers.shown == ["stop phone.fcm"])
        rig.turn()
        #expect(rig.told("c0") == ["ring fcm sent 200"])
    }

    @Test func anAppThatThisProcessDoesNotKnowIsLeftToOthers() {
        let address = DeviceAddress(userID: bob, deviceID: DeviceID("phone")!)
        _ = rig.store.register(
            PushRegistration(
                PushRegistration.Key(address, AppName("new")!, .fcm), target: .token("t"), digest: "t", since: 0))
        var policy = rig.store.pushPolicy()!.policy
        policy.apps[AppName("new")!] = [.fcm]
        rig.store.keep(policy)
        rig.pass(1_500)
        rig.invite()
        rig.pass(1_000)
        #expect(rig.backlog == 1)
    }
}
