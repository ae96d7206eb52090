import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// Registrations, and the calls for which a device may have to be woken (docs/protocol.md, section 7).
@Suite struct PushTests {
    private let world = World()
    private let alice: Phone
    /// This phone is never online.
    private let bob: Phone

    init() {
        Self.keep(PushPolicy(apps: [.standard: [.apns, .apnsVoIP, .webPush], AppName("pro")!: [.fcm]]), in: world)
        alice = world.phone("alice/phone")
        bob = world.stranger("bob/phone")
        bob.isConnected = false
        // A coordinator that runs already has read the kept policy by then.
        world.pass(1_500)
    }

    private static let process = WorkerID("process")

    /// Keeps the policy, as a process with push does that never ends.
    private static func keep(_ policy: PushPolicy, in world: World) {
        world.memory.keep(policy)
        world.memory.pushes(process, for: 1_000_000_000)
    }

    @discardableResult
    private func register(
        _ phone: Phone, _ platform: PushPlatform = .apnsVoIP, app: AppName = .standard, token: String = "t"
    ) -> Response.Outcome? {
        phone.request(.pushRegister(.init(platform: platform, app: app, target: .token(token))))
    }

    private func names(_ outcome: Response.Outcome?) -> [String]? {
        guard case .answer(.registrations(let registrations))? = outcome else { return nil }
        return registrations.map { "\($0.app) \($0.platform.rawValue)" }
    }

    /// Whether the call waits in the queue of pushes. The check takes the call out of the queue.
    private func isQueued(_ callID: String = "c") -> Bool {
        let worker = WorkerID("w")
        let taken = world.memory.takePushes(by: worker, limit: 10, near: nil)
        _ = world.memory.settlePushes(taken.map { PushSettlement($0, again: nil) }, by: worker)
        return taken.contains(CallID(callID)!)
    }

    // MARK: Checks of each second

    @Test func aPolicyThatComesLaterIsKnownWithinASecond() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.stranger("bob/phone")
        bob.isConnected = false
        let registration = PushRegistration(
            PushRegistration.Key(bob.address, .standard, .apns), target: .token("t"), digest: "d", since: 0)
        _ = world.memory.register(registration)
        alice.invite("bob", callID: "before")
        Self.keep(PushPolicy(apps: [.standard: [.apns]]), in: world)
        world.pass(1_500)
        alice.invite("bob", callID: "after")
        let taken = world.memory.takePushes(by: WorkerID("w"), limit: 10, near: nil)
        #expect(taken.contains(CallID("after")!))
    }

    @Test func callsThatNobodyTakesAreForgottenAfterAnHour() {
        register(bob)
        alice.invite("bob", callID: "c")
        #expect(world.memory.countPushes().calls == 1)
        // The call has waited since the invitation expired.
        world.pass(PushLimits.missedLife + 100_000)
        #expect(world.memory.countPushes().calls == 0)
    }

    // MARK: Registering

    @Test func aDeviceRegistersAndUnregisters() {
        #expect(names(register(bob)) == ["default apnsVoIP"])
        world.pass(10)
        #expect(names(register(bob, .fcm, app: AppName("pro")!, token: "u")) == ["default apnsVoIP", "pro fcm"])
        #expect(names(bob.request(.pushUnregister(.init(platform: .apnsVoIP)))) == ["pro fcm"])
        #expect(names(bob.request(.pushUnregister(.init()))) == [])
    }

    @Test func itIsToldSinceWhen() {
        world.pass(1_234)
        let now = world.clock.now
        guard case .answer(.registrations(let registrations))? = register(bob) else {
            Issue.record("not registered")
            return
        }
        #expect(registrations.map(\.since) == [now])
    }

    @Test func theDigestIsThatOfTheTarget() throws {
        register(bob, token: "abc")
        let registration = try #require(world.memory.registrations(of: [bob.user])[0].first)
        #expect(registration.digest == "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0")
    }

    @Test func aTokenThatWasHandedOnIsItsNewOwners() {
        register(bob)
        let carol = world.stranger("carol/phone")
        #expect(names(register(carol)) == ["default apnsVoIP"])
        #expect(world.memory.registrations(of: [bob.user]) == [[]])
    }

    @Test func whatTheDeploymentDoesNotPushIsRefused() {
        #expect(register(bob, .fcm)?.error?.message.hasPrefix("platform: ") == true)
        #expect(register(bob, .apns, app: AppName("pro")!)?.code == .badRequest)
        #expect(register(bob, app: AppName("other")!)?.error?.message.hasPrefix("app: ") == true)
        #expect(names(bob.request(.pushUnregister(.init(platform: .fcm)))) == [], "what is not there has ended")
    }

    @Test func aDeploymentThatPushesNothingRefusesAll() {
        let world = World()
        let bob = world.stranger("bob/phone")
        let refused = register(bob)
        #expect(refused?.code == .badRequest && refused?.error?.message.hasPrefix("platform: ") == true)
        #expect(names(bob.request(.pushUnregister(.init()))) == [])
        Self.keep(PushPolicy(apps: [.standard: [.apnsVoIP]]), in: world)
        #expect(names(register(bob)) == ["default apnsVoIP"], "as soon as it does")
    }

    @Test func aDeploymentThatPushesNoMoreRefusesAll() {
        #expect(names(register(bob)) == ["default apnsVoIP"])
        world.memory.pushes(Self.process, for: 0)
        world.pass(1_500)
        let refused = register(bob)
        #expect(refused?.code == .badRequest && refused?.error?.message.hasPrefix("platform: ") == true)
        #expect(world.memory.registrations(of: [bob.user])[0].count == 1, "what was registered stays")
        world.memory.pushes(Self.process, for: 10_000)
        #expect(names(register(bob)) == ["default apnsVoIP"], "as soon as it does again")
        world.pass(11_500)
        #expect(register(bob)?.code == .badRequest, "it was killed")
    }

    @Test func callsWaitForAnHourForOneWhoPushesAndThenCostNothing() {
        register(bob)
        world.memory.pushes(Self.process, for: 0)
        world.pass(PushLimits.missedLife - 100_000)
        alice.comeOnline()
        alice.invite("bob", callID: "before")
        #expect(isQueued("before"))
        world.pass(200_000)
        alice.comeOnline()
        alice.invite("bob", callID: "after")
        #expect(!isQueued("after"))
    }

    @Test func whatABrowserGivesIsRegisteredIfItsKeyIsAPoint() {
        func register(_ key: String) -> Response.Outcome? {
            bob.request(
                .pushRegister(
                    .init(
                        platform: .webPush,
                        target: .subscription(
                            endpoint: "https://push.example/1", p256dh: key, auth: String(repeating: "A", count: 22)))))
        }
        // The point is from RFC 8291, section 5.
        let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        #expect(names(register(point)) == ["default webPush"])
        let other = register("BA" + String(repeating: "A", count: 85))
        #expect(other?.error?.message.hasPrefix("subscription.keys.p256dh: ") == true)
    }

    @Test func noPhoneIsCalledServer() {
        #expect(register(world.stranger("bob/server"))?.code == .badRequest)
    }

    @Test func signingOutEndsTheRegistrations() {
        register(bob)
        register(world.stranger("bob/web"), token: "other")
        world.stranger("bob/server").request(.userSignOut(bob.address.deviceID))
        #expect(world.memory.registrations(of: [bob.user])[0].map(\.device.deviceID) == [DeviceID("web")!])
        world.stranger("bob/server").request(.userDelete)
        #expect(world.memory.registrations(of: [bob.user]) == [[]])
    }

    // MARK: The queue

    @Test func aCallOfSomebodyRegisteredIsQueuedAsLongAsThatMatters() {
        register(bob)
        alice.invite("bob") { $0.push = .init(title: "t") }
        #expect(world.stored(callID)?.entry(bob.user)?.mayBePushed == true)
        #expect(world.stored(callID)?.pushTexts.map(\.push.title) == ["t"])
        #expect(isQueued())
        alice.cancel()
        #expect(isQueued(), "the call was missed")
    }

    @Test func aCallOfNobodyRegisteredIsNot() {
        alice.invite("bob")
        #expect(world.stored(callID)?.entry(bob.user)?.mayBePushed == false)
        world.pass(seconds: 70)
        #expect(!isQueued())
    }

    @Test func nobodyWhoHasBlockedTheInviterIsWoken() {
        register(bob)
        bob.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.invite("bob")
        register(bob)
        world.pass(seconds: 70)
        #expect(!isQueued())
    }

    @Test func whoRegistersWhileRungIsWoken() {
        alice.invite("bob")
        #expect(!isQueued())
        register(bob)
        #expect(world.stored(callID)?.entry(bob.user)?.mayBePushed == true)
        #expect(isQueued())
        let web = world.stranger("bob/web", acks: false)
        register(web, token: "other")
        #expect(isQueued(), "and so is another device")
        let before = world.stored(callID)?.revision
        #expect(before == 1, "which nobody sees")
    }

    @Test func whoRegistersAfterTheAnswerIsNot() {
        alice.invite("bob")
        bob.accept()
        register(bob)
        #expect(!isQueued())
    }

    /// A device that registers while the invitation is being written may see no call, and the invitation may see no
    /// registration.
    @Test func aRegistrationThatNobodySawIsFoundByTheFirstDeadline() {
        alice.invite("bob")
        let key = PushRegistration.Key(bob.address, .standard, .apnsVoIP)
        _ = world.memory.register(PushRegistration(key, target: .token("t"), digest: "d", since: 0))
        world.pass(990)
        #expect(!isQueued())
        world.pass(20)
        #expect(isQueued())
    }

    @Test func aDeviceThatGoesUnackedIsLookedAtAtOnce() {
        let web = world.phone("bob/web", acks: false)
        register(web)
        alice.invite("bob")
        #expect(isQueued())
        web.lose()
        #expect(isQueued())
        #expect(world.stored(callID)?.revision == 1)
    }

    @Test func theWorkerNextDoorIsTold() {
        var told: [CallID] = []
        world.service.onPushes = { told += $0 }
        alice.invite("bob", callID: "a")
        #expect(told.isEmpty)
        register(bob)
        #expect(told == [CallID("a")!])
    }

    // MARK: Costs

    @Test func nothingIsAskedThatWasNotForeseen() {
        register(bob)
        alice.invite("bob")
        world.pass(seconds: 30)
        #expect(world.service.counters[.lookups] == 0)
    }

    // MARK: Timelines

    @Test func onlyTheUserAndBackendsSeeWhoWasWoken() {
        alice.invite("bob")
        let step = TraceEntry.Step.push(
            PushStep(device: bob.address, platform: .apnsVoIP, kind: .ring, outcome: .sent, status: 200, took: 9))
        world.memory.trace(
            [CallTrace(callID, [TraceEntry(time: world.clock.now, coordinator: "w", step: step)])], life: 1_000_000)
        func sees(_ phone: Phone) -> Bool? {
            phone.request(.trace(.init(callID: callID)))?.success?.timeline?.entries.contains { $0.step == step }
        }
        #expect(sees(bob) == true)
        #expect(sees(alice) == false)
        #expect(sees(world.stranger("alice/server")) == true)
    }
}
