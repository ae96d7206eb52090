import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// The answer to a device that a push woke (docs/protocol.md, section 7, Ring check).
@Suite struct RingCheckTests {
    private let world = World()
    private let alice: Phone
    /// A push woke this phone, and the phone is not connected.
    private let bob: Phone
    /// The gateway, which acts for bob.
    private let gateway: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.stranger("bob/phone")
        bob.isConnected = false
        gateway = world.stranger("bob/server")
    }

    private func check(
        _ invitation: Int = 1, device: String = "phone", isRejected: Bool = false, by phone: Phone? = nil
    ) -> Response.Outcome? {
        (phone ?? gateway).request(
            .ringCheck(
                .init(
                    callID: callID, device: DeviceID(device)!, invitation: invitation, isRejected: isRejected)))
    }

    private func reason(_ outcome: Response.Outcome?) -> RingState.Reason? {
        guard case .answer(.ring(.over(let reason)))? = outcome else { return nil }
        return reason
    }

    private func expiresIn(_ outcome: Response.Outcome?) -> Int? {
        guard case .answer(.ring(.ringing(let expiresIn, let call)))? = outcome, call.callID == callID else {
            return nil
        }
        return expiresIn
    }

    private var bobsState: MemberState? { world.stored(callID)?.entry(bob.user)?.state }

    @Test func itRingsForTheRestAndCountsAsAnAck() {
        alice.invite("bob") { $0.timeout = 20 }
        world.pass(seconds: 3)
        #expect(expiresIn(check()) == 17_000)
        #expect(bobsState == .received)
        #expect(alice.names.last == .userStateChanged, "the caller hears that it rings")
        let stored = world.memory.load([RecordID.call(callID)])[0]
        #expect(stored?.checks == [RingCheck(device: bob.address, invitation: 1)])
        #expect(stored?.acks.contains { $0.device == bob.address } == false)
    }

    @Test func whatIsAskedAgainWritesNothing() {
        alice.invite("bob")
        _ = check()
        let version = world.memory.load([RecordID.call(callID)])[0]?.version
        #expect(expiresIn(check()) != nil)
        #expect(world.memory.load([RecordID.call(callID)])[0]?.version == version)
    }

    /// A ring check is no ack of a live session: the app that connects after the ring check rings.
    @Test func theAppThatConnectsIsInvited() {
        alice.invite("bob")
        _ = check()
        bob.comeOnline()
        #expect(bob.names == [.invited])
    }

    @Test func aLiveSessionsAckStaysAsItIs() {
        bob.comeOnline()
        alice.invite("bob")
        let acks = world.memory.load([RecordID.call(callID)])[0]?.acks
        #expect(acks?.contains { $0.device == bob.address && $0.revision > 0 } == true)
        _ = check()
        #expect(world.memory.load([RecordID.call(callID)])[0]?.acks == acks)
    }

    @Test func aRejectIsTheDevicesOwn() {
        let web = world.phone("bob/web")
        alice.invite("bob", mode: .advanced)
        #expect(reason(check(isRejected: true)) == .rejected)
        #expect(bobsState == .rejected && world.stored(callID)?.entry(bob.user)?.device == bob.address.deviceID)
        #expect(world.stored(callID)?.entry(bob.user)?.reason == "declined")
        #expect(web.names.last == .handledElsewhere)
        #expect(alice.names.last == .ended)
        let revision = world.stored(callID)?.revision
        #expect(reason(check(isRejected: true)) == .rejected, "again")
        #expect(world.stored(callID)?.revision == revision)
    }

    /// A button of a notification declines, while the app rings on a connection of its own.
    @Test func theAppOfTheDeviceThatDeclinesStopsRingingToo() {
        bob.comeOnline()
        alice.invite("bob", mode: .advanced)
        #expect(bob.names == [.invited])
        #expect(reason(check(isRejected: true)) == .rejected)
        #expect(bob.names == [.invited, .handledElsewhere])
        world.pass(seconds: 20)
        #expect(bob.names == [.invited, .handledElsewhere], "it has acked that")
        let (web, tablet) = (world.phone("carol/web"), world.phone("carol/tablet"))
        alice.invite("carol", callID: "d")
        web.reject("d")
        #expect(web.names == [.invited] && tablet.names.last == .handledElsewhere, "who declines itself knows")
    }

    @Test func anAppThatConnectsAfterItsDeviceHasDeclinedDoesNotRing() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        carol.accept()
        #expect(reason(check(isRejected: true)) == .rejected)
        bob.comeOnline()
        #expect(!bob.names.contains(.invited))
        #expect(alice.add("bob")?.call != nil)
        #expect(bob.names.last == .invited, "another invitation rings")
    }

    @Test(arguments: [
        (RingState.Reason.rejected, 0), (.cancelled, 1), (.timeout, 2), (.ended, 3), (.answeredElsewhere, 4),
    ])
    func eachEndHasItsReason(_ expected: RingState.Reason, _ way: Int) {
        let (web, carol) = (world.phone("bob/web"), world.phone("carol/phone"))
        alice.invite("bob", "carol", mode: .advanced) { $0.timeout = 30 }
        switch way {
        case 0: web.reject()
        case 1: alice.cancel()
        case 2: world.pass(seconds: 30)
        case 3:
            carol.accept()
            alice.end()
        default:
            web.accept()
            web.quit()
        }
        let checks = world.memory.load([RecordID.call(callID)])[0]?.checks
        #expect(reason(check()) == expected)
        #expect(reason(check(isRejected: true)) == expected)
        #expect(checks == [] && world.memory.load([RecordID.call(callID)])[0]?.checks == [])
    }

    /// No coordinator has served the expiry of the invitation yet.
    @Test func anInvitationThatIsOverDoesNotRing() {
        alice.invite("bob") { $0.timeout = 5 }
        world.clock.now += 5_000
        #expect(reason(check()) == .timeout)
    }

    @Test func aKeyOfAnEarlierInvitationDoesNothing() {
        let web = world.phone("bob/web")
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        carol.accept()
        web.reject()
        #expect(alice.add("bob")?.call != nil)
        let invitation = world.stored(callID)?.entry(bob.user)?.invitedRevision ?? 0
        #expect(invitation > 1)
        #expect(reason(check(1)) == .ended)
        #expect(reason(check(1, isRejected: true)) == .ended)
        #expect(bobsState?.isPending == true)
        #expect(world.memory.load([RecordID.call(callID)])[0]?.checks == [])
        #expect(expiresIn(check(invitation)) != nil)
        #expect(reason(check(invitation, isRejected: true)) == .rejected)
    }

    @Test func nobodyElseLearnsAnything() {
        world.phones.forEach { $0.acks = false }
        alice.invite("bob")
        #expect(check(by: world.stranger("eve/server"))?.code == .callNotFound)
        let phone = world.stranger("bob/tablet", acks: false)
        #expect(check(by: phone)?.code == .unknownType, "it is the gateway's")
        #expect(bobsState == .inviting)
    }

    @Test func whoHasBlockedTheInviterKnowsOfNothing() {
        let bob = world.phone("bob/web")
        bob.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        alice.invite("bob")
        #expect(check()?.code == .callNotFound)
    }

    @Test func aDayAfterTheEndItIsForgotten() {
        alice.invite("bob")
        alice.cancel()
        world.clock.now += 86_399_000
        #expect(reason(check()) == .cancelled)
        world.clock.now += 1_000
        #expect(check()?.code == .callNotFound)
    }

    @Test func aCallThatIsNoneIsNotMade() {
        #expect(check()?.code == .callNotFound)
        #expect(check(isRejected: true)?.code == .callNotFound)
        #expect(world.memory.load([RecordID.call(callID)]) == [nil])
    }

    /// Each holder of a key can make ring checks. These checks must keep neither the user nor the backend from any
    /// request.
    @Test func tooManyAreRefusedAndNobodyElseIs() {
        var settings = ServiceSettings()
        settings.limits.ringChecks = .init(rate: 1, burst: 3)
        settings.limits.requests = .init(rate: 1, burst: 2)
        settings.limits.device = .init(rate: 1, burst: 3)
        settings.limits.sentBytes = .init(rate: 1_000, burst: 2_000)
        let world = World(settings)
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        let gateway = world.stranger("bob/server")
        alice.invite("bob")
        for _ in 0..<3 { #expect(expiresIn(check(by: gateway)) != nil) }
        #expect(check(by: gateway)?.code == .rateLimited)
        #expect(check(device: "tablet", by: gateway)?.error == nil, "of another device")
        #expect(gateway.request(.userSignOut(DeviceID("x")!))?.error == nil)
        #expect(bob.accept()?.error == nil, "the user has asked for nothing yet")
        world.pass(seconds: 1)
        #expect(reason(check(by: gateway)) == .answeredElsewhere, "one a second is free again")
    }

    @Test func theTimelineTellsOfIt() {
        alice.invite("bob")
        _ = check(isRejected: true)
        world.pass(200)
        let steps = alice.request(.trace(.init(callID: callID)))?.success?.timeline?.entries.map(\.step) ?? []
        #expect(steps.contains(.ack(bob.address, revision: 1)))
        #expect(steps.contains(.request(bob.address, type: "call.reject", outcome: "ok")))
        #expect(!steps.contains { if case .request(_, "call.ringCheck", _) = $0 { true } else { false } })
    }
}
