import BellwireClient
import BellwireTestKit
import CallKit
import Foundation
import SignalingProtocol
import Testing

@testable import BellwireCallKit

/// Calls that Bob makes on his iPhone, in CallKit.
extension BellwireCallKitTests {
    private func ringing(at client: SignalingClient) async throws -> BellwireCall {
        var call: BellwireCall?
        try await until("the ringing") {
            call = client.calls.first { $0.ownMember?.state.isPending ?? false }
            return call != nil
        }
        return try #require(call)
    }

    private func invites(_ phone: Phone) -> Int {
        phone.line.requests.count { if case .invite = $0 { true } else { false } }
    }

    @Test func aCallOfTheUserAppearsInCallKit() async throws {
        var (audio, muted): ([Bool], [Bool]) = ([], [])
        callKit.onAudio = { audio.append($0) }
        callKit.onMute = { muted.append($0) }
        let call = try await callKit.call("alice", media: "video")
        #expect(provider.told == ["start alice", "connecting"])
        #expect(provider.calls[id(call)]?.hasVideo == true)
        #expect(provider.calls[id(call)]?.supportsHolding == false)
        try await until("the audio session") { audio == [true] }
        try await ringing(at: alice).accept()
        try await until("the answer") { provider.told.last == "connected" }
        #expect(manager.call === call)
        #expect(provider.press(CXSetMutedCallAction(call: id(call), muted: true)).outcome == .fulfilled)
        #expect(muted == [true])
        _ = provider.press(CXEndCallAction(call: id(call)))
        try await until("the end") { call.state == .ended }
        #expect(call.endReason == .hangup)
        try await until("the end of the audio session") { audio == [true, false] }
        #expect(provider.told == ["start alice", "connecting", "connected"])
    }

    @Test func theEndOfACallOfTheUserIsToldWithItsReason() async throws {
        let rejected = try await callKit.call("alice")
        try await ringing(at: alice).reject()
        try await until("the rejection") { provider.calls[id(rejected)] == nil }
        #expect(provider.told.last == "end remoteEnded")
        let unanswered = try await callKit.call([UserID("alice")!], timeout: 1)
        try await until("the timeout") { provider.calls[id(unanswered)] == nil }
        #expect(provider.told.last == "end unanswered")
        let hungUp = try await callKit.call("alice")
        try await ringing(at: alice).accept()
        try await hungUp.waitUntilActive()
        try await alice[hungUp.id]?.hangUp()
        try await until("the end by the other user") { provider.calls[id(hungUp)] == nil }
        #expect(provider.told.last == "end remoteEnded")
        let leftByTheApp = try await callKit.call("alice")
        try await manager.hangUp()
        try await until("the end by the app") { provider.calls[id(leftByTheApp)] == nil }
        #expect(provider.answered.isEmpty)
    }

    @Test func aCallThatAnotherDeviceTakesOverIsToldSo() async throws {
        let call = try await callKit.call("alice")
        try await ringing(at: alice).accept()
        try await until("the answer") { provider.told.last == "connected" }
        _ = try await client("bob", device: "tablet").join(call.id)
        try await until("the end") { provider.told.last == "end answeredElsewhere" }
        #expect(provider.calls.isEmpty)
    }

    @Test func aCallIsCancelledInCallKit() async throws {
        let call = try await callKit.call("alice")
        let other = try await ringing(at: alice)
        callKit.hangUp(call)
        try await until("the end") { other.state == .ended }
        #expect(other.endReason == .cancelled)
        #expect(provider.told == ["start alice", "connecting"])
    }

    @Test func aCallIsHungUpBeforeTheServiceHasAnswered() async throws {
        try await bob.connect()
        phone.line.hold()
        let callKit = callKit
        let calling = Task { try await callKit.call("alice") }
        try await until("the invitation") { invites(phone) == 1 }
        let callID = try #require(manager.callID)
        _ = provider.press(CXEndCallAction(call: UUID(callID: callID.string)))
        try await until("the cancel") { phone.line.requests.contains { if case .cancel = $0 { true } else { false } } }
        phone.line.release()
        _ = await calling.result
        try await until("the end") { manager.state == .idle && alice.calls.isEmpty }
        #expect(try await alice.calls(count: 1).calls.allSatisfy { $0.state == .ended })
        #expect(provider.told == ["start alice"])
    }

    @Test func aCallThatCallKitDoesNotStartIsNotMade() async throws {
        provider.transactionRefusal = CXErrorCodeRequestTransactionError(.maximumCallGroupsReached)
        let error = await #expect(throws: SignalingError.self) { try await callKit.call("alice") }
        #expect(error?.code == .invalidState)
        #expect(invites(phone) == 0)
        #expect(provider.told.isEmpty)
    }

    @Test func aCallThatTheServiceRefusesHasFailedInCallKit() async throws {
        _ = try await client("bob", device: "tablet").call("carol")
        let error = await #expect(throws: SignalingError.self) { try await callKit.call("alice") }
        #expect(error?.code == .alreadyInCall)
        #expect(provider.told == ["start alice", "end failed"])
        #expect(manager.state == .idle)
    }

    @Test func aCallWaitsUntilTheCallBeforeIsLeft() async throws {
        let first = try await callKit.call("alice")
        try await ringing(at: alice).accept()
        try await first.waitUntilActive()
        _ = provider.press(CXEndCallAction(call: id(first)))
        let second = try await callKit.call("carol")
        #expect(manager.call === second)
        try await until("the end") { first.state == .ended }
    }

    @Test func aCommonCallOfTheUserGoesOnAfterItsAnswer() async throws {
        var policies = BellwireCallManager.Policies()
        policies.mode = .common
        let phone = try Phone(service, policies)
        let call = try await phone.callKit.call("alice")
        try await ringing(at: alice).accept()
        try await until("the answer") { phone.provider.told.last == "connected" && call.state == .ended }
        #expect(phone.provider.answered == [id(call)])
        try await phone.manager.hangUp()
        try await until("the end") { phone.provider.calls.isEmpty }
        #expect(phone.provider.told.last == "end remoteEnded")
    }

    /// Both users call each other. CallKit goes on with the call that the user has made.
    @Test(arguments: orders, [CallMode.advanced, .common])
    func afterAGlareMergeTheUsersOwnCallGoesOn(_ order: [Step], _ mode: CallMode) async throws {
        var policies = BellwireCallManager.Policies()
        policies.mode = mode
        let phone = try Phone(service, policies)
        let (manager, provider, callKit) = (phone.manager, phone.provider, phone.callKit)
        try await phone.client.connect()
        phone.line.hold()
        let call = try await alice.call(Request.Invite(invitees: [UserID("bob")!], mode: mode))
        let merging = Task { try await callKit.call("alice") }
        try await until("the messages") { phone.line.holds(Self.isInvited) && phone.line.holds(Self.isMerge) }
        let own = UUID(callID: try #require(manager.callID).string)
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
            if order.last == .merge, step != .merge { try await until("the report") { provider.calls.count == 2 } }
        }
        phone.line.release()
        try await until("the answer") { provider.told.contains("connected") }
        try await until("the single call") { Set(provider.calls.keys) == [own] }
        #expect(provider.answered == [own])
        #expect(!phone.line.requests.contains { if case .accept = $0 { true } else { false } })
        let merged = try await merging.value
        callKit.hangUp(merged)
        try await until("the end") { call.state == .ended && manager.state == .idle }
        #expect(provider.calls.isEmpty)
    }
}
