import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// The app's backend acts for users, as their device `server` (docs/protocol.md, section 1, Backends).
struct BackendTests {
    let world = World()
    /// The backend, acting for alice.
    let backend: Phone
    let alice: Phone
    let tablet: Phone
    let bob: Phone

    init() {
        backend = world.stranger("alice/server")
        alice = world.phone("alice/phone")
        tablet = world.phone("alice/tablet")
        bob = world.phone("bob/phone")
    }

    // MARK: A call that the backend holds

    @Test func allDevicesOfTheUserAreToldOfACallThatTheBackendHolds() {
        backend.invite("bob", mode: .advanced)
        // The devices get `call.created` until they have acked it, also with later changes.
        #expect(!alice.names.isEmpty && alice.names.allSatisfy { $0 == .created })
        #expect(!tablet.names.isEmpty && tablet.names.allSatisfy { $0 == .created })
        bob.accept()
        for phone in [alice, tablet] {
            #expect(phone.names.last == .userStateChanged, "and each of what follows")
            #expect(phone.events.last?.changes.map(\.userID) == [bob.user])
        }
        backend.end()
        #expect(alice.names.last == .ended && tablet.names.last == .ended && bob.names.last == .ended)
        #expect(backend.events.isEmpty, "the backend hears of it by webhooks")
    }

    @Test func nothingIsResentToTheBackend() {
        backend.invite("bob", mode: .advanced)
        bob.accept()
        world.pass(seconds: 30)
        #expect(!world.published.contains { $0.event != nil && $0.topic == "alice/server" })
    }

    @Test func noHeartbeatIsAskedForUntilAPhoneTakesTheCallOver() {
        backend.invite("bob", mode: .advanced)
        bob.accept()
        func pass(minutes: Int) {
            for _ in 0..<minutes * 2 {
                world.pass(seconds: 30)
                bob.heartbeat()
                alice.republishPresence()
                tablet.republishPresence()
            }
        }
        pass(minutes: 20)
        #expect(world.stored(callID)?.state == .active)
        #expect(tablet.join()?.call?.member(tablet.user)?.device == tablet.address.deviceID)
        #expect(alice.names.last == .handledElsewhere, "the others are told who has it now")
        pass(minutes: 2)
        #expect(world.stored(callID)?.endReason == .heartbeatTimeout)
        #expect(world.stored(callID)?.member(alice.user)?.state == .quit)
    }

    @Test func aDayWithoutARequestEndsTheCall() {
        var settings = ServiceSettings()
        settings.calls.heldTimeout = 100_000
        let world = World(settings)
        let (backend, bob) = (world.stranger("alice/server"), world.phone("bob/phone"))
        backend.invite("bob", mode: .advanced)
        bob.accept()
        func pass(seconds: Int) {
            for _ in 0..<seconds / 10 {
                world.pass(seconds: 10)
                bob.heartbeat()
            }
        }
        pass(seconds: 90)
        backend.heartbeat()
        pass(seconds: 90)
        #expect(world.stored(callID)?.state == .active)
        pass(seconds: 20)
        #expect(world.stored(callID)?.endReason == .heartbeatTimeout)
    }

    @Test func theInviterIsNeverLost() {
        backend.invite("bob")
        world.send([backend.presence(.offline(.logout), session: "")])
        alice.logOut()
        tablet.lose()
        world.pass(seconds: 50)
        #expect(world.stored(callID)?.state == .ringing)
    }

    @Test(arguments: [CallMode.common, .advanced])
    func theUsersPhonesStopRingingWhenTheBackendAnswers(_ mode: CallMode) {
        bob.invite("alice", mode: mode)
        #expect(alice.names == [.invited])
        backend.accept()
        #expect(alice.names.last == .handledElsewhere && tablet.names.last == .handledElsewhere)
        #expect(bob.events.last?.changes.map(\.state) == [.accepted])
    }

    @Test func theUsersPhonesStopRingingWhenTheBackendRejects() {
        bob.invite("alice")
        backend.reject()
        #expect(alice.names.last == .handledElsewhere && tablet.names.last == .handledElsewhere)
    }

    // MARK: Where responses go

    /// Returns the topics of the responses to a request with this response topic.
    private func topics(answering responseTopic: String?) -> [String] {
        let before = world.published.count
        let get = UpMessage.request(Request(id: world.nextRequestID(), body: .get(.init(callID: callID))))
        world.send([backend.up(get, correlationData: [7], responseTopic: responseTopic)])
        let answers = world.published[before...].filter { $0.response != nil }
        #expect(answers.allSatisfy { $0.correlationData == [7] })
        return answers.map(\.topic)
    }

    @Test func aResponseGoesWhereItIsWantedBelowTheDevicesTopic() {
        let own = world.settings.topics.down(backend.address)
        #expect(topics(answering: own + "/gateway-1") == ["alice/server/gateway-1"])
    }

    @Test(arguments: [
        "bob/phone/x", "alice/phone/x", "alice/server", "alice/server/", "alice/server/a/b", "alice/server/a b", "",
    ])
    func noOtherTopicIsAnswered(_ topic: String) {
        #expect(topics(answering: "\(world.settings.topics.root)/down/\(topic)") == ["alice/server"])
    }

    // MARK: Signing out, deleting

    @Test func signingOutEndsTheSessionAsALogoutDoes() {
        alice.invite("bob")
        #expect(backend.request(.userSignOut(alice.address.deviceID)) == .answer(.done(alice.user)))
        #expect(bob.names == [.invited, .cancelled] && bob.events.last?.call.endReason == .callerLost)
        #expect(!world.memory.devices(of: [alice.user])[0].contains { $0.device == alice.address && $0.isOnline })
        #expect(backend.request(.userSignOut(DeviceID("never")!)) == .answer(.done(alice.user)))
        alice.republishPresence()
        #expect(world.lines().last == "alice/phone error sessionOver")
    }

    /// The session ends before the calls are told; a backend that asks again finds the session ended.
    @Test func signingOutIsDoneOnlyWhenTheCallsAreTold() {
        let race = Race()
        let backend = race.world.stranger("alice/server")
        race.alice.invite("bob")
        race.store.failing = [.commit]
        #expect(backend.request(.userSignOut(race.alice.address.deviceID))?.error?.code == .unavailable)
        #expect(race.world.stored(callID)?.isLive == true)
        race.store.failing = []
        #expect(backend.request(.userSignOut(race.alice.address.deviceID)) == .answer(.done(race.alice.user)))
        #expect(race.world.stored(callID)?.endReason == .callerLost)
    }

    @Test func whoIsDeletedIsOutOfAllCallsHoweverMany() {
        var settings = ServiceSettings()
        settings.limits.pair = .init(rate: 0, burst: 0)
        settings.quotas.pairInvitations = 20
        let world = World(settings)
        let backend = world.stranger("alice/server")
        let callers = (0..<3).map { world.phone("caller\($0)/phone") }
        for number in 0..<60 { callers[number % 3].invite("alice", callID: "c\(number)") }
        #expect(backend.request(.userDelete) == .answer(.done(UserID("alice")!)))
        #expect((0..<60).allSatisfy { world.stored(CallID("c\($0)")!)?.isLive == false })
    }

    @Test(arguments: [Request.Body.userSignOut(DeviceID("phone")!), .userDelete])
    func aDeviceMayNotAskForThat(_ body: Request.Body) {
        #expect(bob.request(body)?.code == .unknownType)
        let devices = world.memory.devices(of: [bob.user])[0]
        #expect(devices.count(where: \.isOnline) == 1)
    }

    @Test func ofADeletedUserNothingIsLeftButTheCallsOfOthers() {
        alice.request(.userUpdate(.init(name: "Alice")))
        alice.request(.userBlock(.init(userID: UserID("carol")!, isBlocked: true)))
        bob.request(.userBlock(.init(userID: alice.user, isBlocked: true)))
        bob.request(.userBlock(.init(userID: alice.user, isBlocked: false)))
        alice.invite("bob", mode: .advanced)
        bob.accept()
        alice.end()
        world.pass(seconds: 1)
        #expect(backend.request(.userDelete) == .answer(.done(alice.user)))
        #expect(world.memory.history(of: alice.user, after: nil, limit: 9).isEmpty)
        #expect(world.memory.timeline(of: callID).entries.isEmpty)
        #expect(world.memory.devices(of: [alice.user])[0].isEmpty)
        #expect(world.memory.read([.profile(alice.user)])[0].profile == nil)
        #expect(world.memory.blockList(of: alice.user).isEmpty)
        #expect(bob.get()?.call?.member(alice.user) != nil, "the call is bob's as well")
        #expect(world.memory.history(of: bob.user, after: nil, limit: 9).count == 1)
        #expect(backend.request(.userDelete) == .answer(.done(alice.user)), "again, for all it is worth")
    }

    /// The deletion stops the phones that ring for the user's call, and leaves the user in no call and with no claim.
    @Test func aDeletedUserIsInNoCallAnyMore() {
        backend.invite("bob", mode: .advanced)
        #expect(bob.names == [.invited])
        bob.invite("alice", callID: "d")
        let before = world.published.count
        backend.request(.userDelete)
        #expect(
            world.published[before...].count { $0.response != nil } == 1, "what it does by itself it does not answer")
        #expect(world.stored(callID)?.state == .ended && bob.names.contains(.cancelled))
        #expect(world.stored(CallID("d")!)?.member(alice.user)?.state == .rejected)
        #expect(backend.invite("bob", callID: "e", mode: .advanced)?.success != nil, "no claim is left")
    }

    @Test func aUserCannotPreventBeingSignedOut() {
        var settings = ServiceSettings()
        settings.limits.requests = .init(rate: 1, burst: 2)
        let world = World(settings)
        let (mallory, backend) = (world.phone("mallory/phone"), world.stranger("mallory/server"))
        while mallory.request(.userBlockList)?.code != .rateLimited {}
        #expect(backend.request(.userSignOut(mallory.address.deviceID)) == .answer(.done(mallory.user)))
        #expect(backend.request(.userDelete) == .answer(.done(mallory.user)))
    }

    /// The call goes on without the user, and the end of the call brings no entry back into the user's list.
    @Test func aCallThatIsLiveWhenAUserIsDeletedEndsWithoutALineInItsList() {
        let carol = world.phone("carol/phone")
        bob.invite("alice", "carol", mode: .advanced)
        carol.accept()
        backend.request(.userDelete)
        bob.end()
        world.pass(seconds: 1)
        #expect(world.memory.history(of: alice.user, after: nil, limit: 9).isEmpty)
        #expect(world.memory.history(of: carol.user, after: nil, limit: 9).count == 1)
    }

    // MARK: Devices that take themselves for in a call

    /// A store that crashes before it has written what it confirmed leaves a device in this state.
    @Test func aHeartbeatOfWhoIsNotInTheCallIsAnsweredWithWhatBecameOfIt() {
        bob.invite("alice", mode: .advanced)
        bob.cancel()
        #expect(alice.names == [.invited, .cancelled])
        world.pass(seconds: 2)
        let before = world.published.count
        alice.heartbeat()
        #expect(world.published[before...].map(\.line) == ["alice/phone call.cancelled 3"])
        alice.heartbeat()
        #expect(world.published.count == before + 1, "at most once a second")
        world.pass(seconds: 2)
        world.stranger("eve/phone").heartbeat()
        #expect(world.published.count == before + 1, "a stranger hears nothing")
    }
}
