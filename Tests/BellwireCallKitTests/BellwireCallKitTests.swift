import BellwireClient
import BellwireTestKit
import CallKit
import Foundation
import PushKit
import SignalingProtocol
import Synchronization
import Testing

@testable import BellwireCallKit

/// An iPhone with the SDK, at a service in memory, with stand-ins for CallKit and PushKit.
@MainActor @Suite(.serialized, .timeLimit(.minutes(1))) struct BellwireCallKitTests {
    let service = TestService()
    let alice: SignalingClient
    let phone: Phone
    var bob: SignalingClient { phone.client }
    var manager: BellwireCallManager { phone.manager }
    var callKit: BellwireCallKit { phone.callKit }
    var provider: CXProvider { phone.provider }
    private var checks: Checks { phone.checks }

    init() async throws {
        phone = try Phone(service)
        alice = SignalingClient(service.configuration(user: "alice"))
        try await alice.connect()
    }

    private func push(_ call: BellwireCall, check: String? = nil) { phone.push(call, check: check) }

    func id(_ call: BellwireCall) -> UUID { UUID(callID: call.id.string) }

    func until(_ what: String, _ condition: () -> Bool) async throws {
        while !condition() { try await Task.sleep(for: .milliseconds(2)) }
    }

    func client(_ user: String, device: String = "phone") async throws -> SignalingClient {
        let client = SignalingClient(service.configuration(user: user, device: device))
        phone.others.append(client)
        try await client.connect()
        return client
    }

    @Test func aSleepingPhoneRingsByItsPushAndAnswers() async throws {
        let call = try await alice.call("bob", media: "video")
        push(call)
        #expect(provider.told == ["report Alice"], "reported before the push's method has returned")
        let action = provider.press(CXAnswerCallAction(call: id(call)))
        try await until("the answer") { action.outcome != .open }
        #expect(action.outcome == .fulfilled)
        #expect(manager.state == .connecting)
        try await call.waitUntilActive()
        _ = provider.press(CXEndCallAction(call: id(call)))
        try await until("the end") { call.state == .ended }
        #expect(call.endReason == .hangup)
    }

    @Test func aCancelEndsTheRinging() async throws {
        let call = try await alice.call("bob")
        push(call)
        try await until("the connection") { bob.calls.contains { $0.id == call.id } }
        try await call.cancel()
        try await until("the end") { provider.told.last == "end remoteEnded" }
        #expect(provider.calls.isEmpty)
    }

    /// The main actor is busy, so that the call has come and gone on the connection before the main actor sees it.
    @Test func aCallThatIsOverBeforeItsArrivalIsSeenIsEnded() async throws {
        let call = try await alice.call("bob")
        push(call)
        let other = bob
        let isOver = Task.detached {
            try await other.connect()
            while !other.calls.contains(where: { $0.id == call.id }) { try await Task.sleep(for: .milliseconds(1)) }
            try await call.cancel()
            while other.calls.contains(where: { $0.id == call.id }) { try await Task.sleep(for: .milliseconds(1)) }
        }
        // No other work runs on the main actor until then.
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            _ = await isOver.result
            done.signal()
        }
        wait(for: done)
        try await until("the end") { provider.told.last == "end remoteEnded" }
        #expect(provider.calls.isEmpty)
    }

    private nonisolated func wait(for done: DispatchSemaphore) { done.wait() }

    @Test func aCallThatIsOverWhenThePushArrivesIsEndedByTheCheck() async throws {
        let call = try await alice.call("bob")
        try await call.cancel()
        await checks.answers(RingCheckAnswer(ringing: false, reason: "cancelled"))
        push(call, check: "https://ring.example.com/1")
        try await until("the end") { provider.told == ["report Alice", "end remoteEnded"] }
    }

    @Test func aDeclineWithoutAConnectionGoesByTheRingCheck() async throws {
        let call = try await alice.call("bob")
        await checks.answers(RingCheckAnswer(ringing: true))
        service.breakConnections(of: "bob")
        push(call, check: "https://ring.example.com/1")
        _ = provider.press(CXEndCallAction(call: id(call)))
        while await checks.rejected.isEmpty, call.state != .ended { try await Task.sleep(for: .milliseconds(2)) }
        let byCheck = await checks.rejected
        #expect(byCheck == ["https://ring.example.com/1"] || call.endReason == .rejected)
    }

    @Test func aCallOfTheConnectionIsShownOnceWithItsPush() async throws {
        try await bob.connect()
        let call = try await alice.call("bob")
        try await until("the report") { provider.told == ["report alice"] }
        push(call)
        #expect(provider.told.last == "report Alice callUUIDAlreadyExists")
        #expect(provider.calls.count == 1)
        let own = try #require(bob.calls.first)
        callKit.answer(own)
        try await call.waitUntilActive()
        callKit.hangUp(own)
        try await until("the end") { call.state == .ended }
    }

    @Test func whoIsInACallDoesNotAnswerAnother() async throws {
        try await bob.connect()
        let first = try await alice.call("bob")
        try await until("the report") { provider.calls[id(first)] != nil }
        let answer = provider.press(CXAnswerCallAction(call: id(first)))
        try await until("the answer") { answer.outcome == .fulfilled }
        let carol = try await client("carol")
        let second = try await carol.call("bob")
        // The manager rejects the second call as busy, so CallKit's ringing ends.
        try await until("the end") { second.endReason == .busy || second.endReason == .rejected }
        try await until("the end of the ringing") { provider.calls[id(second)] == nil }
        #expect(provider.calls[id(first)] != nil)
    }

    /// A common call ends at the service with its answer, and goes on between the two users.
    @Test func aCommonCallGoesOnAfterItsAnswer() async throws {
        let call = try await alice.call(Request.Invite(invitees: [UserID("bob")!], mode: .common))
        push(call)
        let action = provider.press(CXAnswerCallAction(call: id(call)))
        try await until("the answer") { action.outcome != .open }
        #expect(action.outcome == .fulfilled)
        try await until("the end at the service") { call.state == .ended }
        #expect(provider.calls[id(call)] != nil)
        try await manager.hangUp()
        try await until("the end") { provider.calls[id(call)] == nil }
        #expect(manager.state == .idle)
    }

    @Test func aDeclineBeforeTheConnectionIsNotRungAgain() async throws {
        let call = try await alice.call("bob")
        push(call)
        _ = provider.press(CXEndCallAction(call: id(call)))
        try await until("the rejection") { call.state == .ended }
        #expect(call.endReason == .rejected)
        #expect(provider.told == ["report Alice"])
    }

    private var acceptances: Int {
        phone.line.requests.count { if case .accept = $0 { true } else { false } }
    }

    @Test func anAcceptOfTheAppIsShownInCallKit() async throws {
        let call = try await alice.call("bob")
        push(call)
        try await until("the ringing") { manager.state == .ringing }
        try await manager.accept()
        try await until("the answer in CallKit") { provider.answered == [id(call)] }
        #expect(acceptances == 1)
        #expect(provider.told == ["report Alice"])
        _ = provider.press(CXEndCallAction(call: id(call)))
        try await until("the end") { call.state == .ended }
        #expect(call.endReason == .hangup)
    }

    @Test func anAnswerDuringTheAppsOwnAcceptSucceeds() async throws {
        try await bob.connect()
        let call = try await alice.call("bob")
        try await until("the ringing") { provider.calls[id(call)] != nil }
        phone.line.hold()
        let manager = manager
        let accepting = Task { try await manager.accept() }
        try await until("the request") { acceptances == 1 }
        let answer = provider.press(CXAnswerCallAction(call: id(call)))
        phone.line.release()
        try await until("the answer") { answer.outcome != .open }
        #expect(answer.outcome == .fulfilled)
        try await accepting.value
        #expect(provider.answered == [id(call)])
    }

    enum Step: CaseIterable, Sendable { case push, invited, merge }

    /// The push of an invitation, its event, and the response to the own invitation, in all orders.
    nonisolated static let orders: [[Step]] = [
        [.push, .invited, .merge], [.push, .merge, .invited], [.invited, .push, .merge], [.invited, .merge, .push],
        [.merge, .push, .invited], [.merge, .invited, .push],
    ]

    static func isInvited(_ message: DownMessage) -> Bool {
        if case .event(let event) = message { event.name == .invited } else { false }
    }

    static func isMerge(_ message: DownMessage) -> Bool {
        guard case .response(let response) = message else { return false }
        return if case .success(let success) = response.outcome { success.merged } else { false }
    }

    @Test(arguments: orders, [CallMode.advanced, .common])
    func aGlareMergeIsShownAsAnswered(_ order: [Step], _ mode: CallMode) async throws {
        var policies = BellwireCallManager.Policies()
        policies.mode = mode
        let phone = try Phone(service, policies)
        let (manager, provider) = (phone.manager, phone.provider)
        try await phone.client.connect()
        phone.line.hold()
        let call = try await alice.call(Request.Invite(invitees: [UserID("bob")!], mode: mode))
        let merging = Task { try await manager.call("alice") }
        try await until("the messages") { phone.line.holds(Self.isInvited) && phone.line.holds(Self.isMerge) }
        for step in order {
            switch step {
            case .push: phone.push(call)
            case .invited: phone.line.deliver(Self.isInvited)
            case .merge:
                phone.line.deliver(Self.isMerge)
                let merged = try await merging.value
                #expect(merged.id == call.id)
            }
            // The steps after the merge come while the news of the merge are under way.
            if order.last == .merge, step != .merge {
                try await until("the report") { provider.calls[id(call)] != nil }
            }
        }
        phone.line.release()
        try await until("the answer in CallKit") { provider.answered == [id(call)] }
        #expect(!provider.told.contains { $0.hasPrefix("end") })
        #expect(!phone.line.requests.contains { if case .accept = $0 { true } else { false } })
        #expect(manager.state == .connecting)
        _ = provider.press(CXEndCallAction(call: id(call)))
        try await until("the end") { call.state == .ended && manager.state == .idle }
        #expect(provider.calls.isEmpty)
    }

    private func answers(_ call: BellwireCall, at phone: Phone) async throws {
        try await until("the report") { phone.provider.calls[id(call)] != nil }
        let answer = phone.provider.press(CXAnswerCallAction(call: id(call)))
        try await until("the answer") { answer.outcome == .fulfilled }
    }

    private func phoneThatTellsOfWaitingCalls() async throws -> Phone {
        var policies = BellwireCallManager.Policies()
        policies.busy = .tell
        let phone = try Phone(service, policies)
        try await phone.client.connect()
        return phone
    }

    /// The button *End & Accept*: both actions come at once, while the manager has the first call.
    @Test func anAnswerWaitsUntilTheCallBeforeIsLeft() async throws {
        let phone = try await phoneThatTellsOfWaitingCalls()
        let first = try await alice.call("bob")
        try await answers(first, at: phone)
        let second = try await client("carol").call("bob")
        try await until("the report") { phone.provider.calls[id(second)] != nil }
        let answer = CXAnswerCallAction(call: id(second))
        phone.provider.play(CXTransaction(actions: [CXEndCallAction(call: id(first)), answer]))
        try await until("the answer") { answer.outcome != .open }
        #expect(answer.outcome == .fulfilled)
        try await second.waitUntilActive()
        try await until("the end of the first call") { first.state == .ended }
        #expect(phone.manager.call?.id == second.id)
    }

    @Test func anAnswerDuringAnotherCallRejectsTheCallAsBusy() async throws {
        let phone = try await phoneThatTellsOfWaitingCalls()
        let first = try await alice.call("bob")
        try await answers(first, at: phone)
        let second = try await client("carol").call("bob")
        try await until("the report") { phone.provider.calls[id(second)] != nil }
        let answer = phone.provider.press(CXAnswerCallAction(call: id(second)))
        try await until("the answer") { answer.outcome != .open }
        #expect(answer.outcome == .failed)
        try await until("the end of the second call") { second.state == .ended }
        #expect(second.endReason == .busy)
        #expect(first.state == .active)
    }

    /// The user is in a call on the tablet.
    @Test func anAnswerThatTheServiceRefusesRejectsTheCallAsBusy() async throws {
        let tablet = try await client("bob", device: "tablet")
        let first = try await alice.call("bob")
        try await until("the call at the tablet") { tablet[first.id] != nil }
        try await tablet[first.id]?.accept()
        try await bob.connect()
        let second = try await client("carol").call("bob")
        try await until("the report") { provider.calls[id(second)] != nil }
        let answer = provider.press(CXAnswerCallAction(call: id(second)))
        try await until("the answer") { answer.outcome != .open }
        #expect(answer.outcome == .failed)
        try await until("the end of the second call") { second.state == .ended }
        #expect(second.endReason == .busy)
        #expect(first.state == .active)
        try await until("the idle manager") { manager.state == .idle }
    }

    /// The client counts as connected, and its connection carries nothing any more.
    @Test func aConnectionThatDiedWhileThePhoneSleptIsReplaced() async throws {
        try await bob.connect()
        phone.line.freeze()
        let call = try await alice.call("bob")
        push(call)
        let answer = provider.press(CXAnswerCallAction(call: id(call)))
        try await until("the answer") { answer.outcome != .open }
        #expect(answer.outcome == .fulfilled)
        try await call.waitUntilActive()
    }

    @Test func theMuteButtonIsTold() throws {
        var muted: [Bool] = []
        callKit.onMute = { muted.append($0) }
        let action = CXSetMutedCallAction(call: UUID(), muted: true)
        provider.delegate?.provider(provider, perform: action)
        #expect(muted == [true])
        #expect(action.outcome == .fulfilled)
    }

    @Test func aCallOfTheConnectionIsShownWithTheInvitersName() async throws {
        try await alice.update(name: "Alice Ames")
        try await bob.connect()
        let call = try await alice.call("bob")
        try await until("the report") { provider.told == ["report Alice Ames"] }
        try await call.cancel()
        try await until("the end") { provider.calls.isEmpty }
    }

    @Test func afterALogoutThePhoneRingsNoMore() async throws {
        let registry = phone.registry
        registry.delegate?.pushRegistry(registry, didUpdate: PKPushCredentials(token: Data([0xAB, 0x01])), for: .voIP)
        try await bob.connect()
        let running = try await alice.call("bob")
        try await until("the ringing") { provider.calls[id(running)] != nil }
        #expect(provider.press(CXAnswerCallAction(call: id(running))).callUUID == id(running))
        try await running.waitUntilActive()
        try await callKit.stop()
        #expect(registry.desiredPushTypes == [])
        #expect(provider.calls.isEmpty && provider.told.last == "invalidate")
        #expect(phone.line.requests.contains(.pushUnregister(.init())))
        try await until("the end of the call that ran") { running.state == .ended }
        try await callKit.stop()
        let late = try await client("dave").call("bob")
        try await until("the invitation") { late.isRingingElsewhere }
        // A push that was on its way: iOS expects a report.
        phone.push(late)
        #expect(provider.told.suffix(2) == ["invalidate", "report nobody"])
        await #expect(throws: SignalingError.self) { try await callKit.call("carol") }
        // Another user's object takes over.
        let next = BellwireCallKit(manager)
        #expect(CXProvider.made !== provider && PKPushRegistry.made?.desiredPushTypes == [.voIP])
        withExtendedLifetime(next) {}
    }

    /// The registration at the service stays, and PushKit's token has ended: no VoIP push reaches the phone.
    @Test func aLogoutWithoutTheServiceFailsSoonAndCanBeTriedAgain() async throws {
        try await bob.connect()
        service.goOffline()
        let error = await #expect(throws: SignalingError.self) { try await callKit.stop() }
        #expect(error?.code == .noResponse && error?.message.contains("5000 ms") == true)
        #expect(phone.registry.desiredPushTypes == [] && provider.told.last == "invalidate")
        service.goOnline()
        try await callKit.stop()
        #expect(phone.line.requests.contains(.pushUnregister(.init())))
    }

    @Test func aLogoutRejectsNoCallThatRingsAtOtherDevices() async throws {
        try await bob.connect()
        let call = try await alice.call("bob")
        try await until("the ringing") { provider.calls[id(call)] != nil && call.isRingingElsewhere }
        try await callKit.stop()
        #expect(provider.calls.isEmpty)
        try await client("bob", device: "tablet").calls.first?.accept()
        try await call.waitUntilActive()
    }

    @Test func aRegistrationThatTheServiceRefusesIsTold() async throws {
        var outcomes: [ErrorCode?] = []
        callKit.onPushRegistration = { outcomes.append($0?.code) }
        let registry = phone.registry
        registry.delegate?.pushRegistry(registry, didUpdate: PKPushCredentials(token: Data([0xAB, 0x01])), for: .voIP)
        try await bob.connect()
        // The service of the tests has no push settings.
        try await until("the refusal") { outcomes.contains(.badRequest) }
        #expect(!outcomes.contains(nil))
    }

    @Test func theTokenIsRegisteredWithTheConnection() async throws {
        let registry = phone.registry
        registry.delegate?.pushRegistry(registry, didUpdate: PKPushCredentials(token: Data([0xAB, 0x01])), for: .voIP)
        try await bob.connect()
        let registration = Request.Body.pushRegister(
            .init(platform: .apnsVoIP, app: .standard, target: .token("ab01")))
        try await until("the registration") { phone.line.requests.contains(registration) }
        let count = phone.line.requests.count { $0 == registration }
        service.breakConnections(of: "bob")
        try await until("the registration of the next connection") {
            phone.line.requests.count { $0 == registration } > count
        }
    }
}
