import SignalingProtocol
import Testing
import ZegoCallProtocol

/// How a call of document 003 goes with a call of the protocol.
struct ZegoCallTests {
    private static let call = ZegoCall(
        id: "a b", caller: .init(id: "alice", name: "A \"lice\""), callees: [.init(id: "bob", name: "Böb")],
        kind: .video)

    private static func snapshot(
        _ callID: CallID, extendedData: String?, media: String? = nil, inviter: String = "alice",
        others: [MemberSnapshot] = []
    ) -> CallSnapshot {
        let alice = MemberSnapshot(userID: UserID(inviter)!, name: "Alice", state: .accepted, updatedAt: 0)
        let bob = MemberSnapshot(
            userID: UserID("bob")!, state: .inviting, invitedBy: UserID(inviter)!, expiresAt: 1, updatedAt: 0)
        return CallSnapshot(
            callID: callID, revision: 1, mode: .advanced, state: .ringing, media: media, inviter: UserID(inviter)!,
            createdAt: 0, timeout: 60, extendedData: extendedData, members: [alice, bob] + others)
    }

    @Test(arguments: [
        // printf 'a b' | sha256sum
        ("call_1-A", "call_1-A"), ("a b", "c8687a08aa5d6ed2044328fa6a697ab8"),
        (
            "1234567890123456789012345678901234567890123456789012345678901234567890",
            "4d27a733bfffd740e782bdeb0e617de6"
        ),
    ])
    func aCallIDIsAsItIsOrTheBeginningOfItsDigest(_ given: String, _ expected: String) {
        #expect(ZegoCall.callID(given)?.string == expected)
    }

    @Test func anEmptyCallIDIsNone() { #expect(ZegoCall.callID("") == nil) }

    @Test func theInvitationCarriesTheCallAsItWasGiven() {
        #expect(
            Self.call.extendedData == #"{"zegoCall":{"call_id":"a b","caller":{"id":"alice","name":"A \"lice\""},"#
                + #""callees":[{"id":"bob","name":"Böb"}],"type":2}}"#)
    }

    @Test func theCallArrivesAsItWasGiven() throws {
        let callID = try #require(ZegoCall.callID("a b"))
        #expect(ZegoCall(Self.snapshot(callID, extendedData: Self.call.extendedData)) == Self.call)
    }

    @Test func aCallThatWasMadeOtherwiseIsTakenFromTheService() {
        let plain = ZegoCall(Self.snapshot(CallID("c1")!, extendedData: "anything", media: "video"))
        #expect(
            plain
                == ZegoCall(
                    id: "c1", caller: .init(id: "alice", name: "Alice"), callees: [.init(id: "bob", name: "bob")],
                    kind: .video))
    }

    /// A caller who was invited again, and a member who joined without an invitation.
    @Test func theCalleesAreAllButTheCaller() {
        var called = Self.snapshot(
            CallID("c1")!, extendedData: nil,
            others: [MemberSnapshot(userID: UserID("carol")!, state: .accepted, updatedAt: 0)])
        called.members[0].invitedBy = UserID("bob")!
        #expect(ZegoCall(called).callees.map(\.id) == ["bob", "carol"])
    }

    @Test func aCallThatSaysItIsAnothersIsTakenFromTheService() throws {
        let callID = try #require(ZegoCall.callID("a b"))
        let stolen = ZegoCall(Self.snapshot(callID, extendedData: Self.call.extendedData, inviter: "mallory"))
        #expect(stolen.caller.id == "mallory")
        let renamed = ZegoCall(Self.snapshot(CallID("other")!, extendedData: Self.call.extendedData))
        #expect(renamed.id == "other")
    }

    @Test(arguments: [
        (#"{"id":"alice","name":"Alice"}"#, ZegoCall.Party(id: "alice", name: "Alice")),
        (#"{"id":"alice"}"#, ZegoCall.Party(id: "alice", name: "")),
        (#"{"id":"alice","name":null}"#, ZegoCall.Party(id: "alice", name: "")),
        (#"{"id":"alice","name":5}"#, nil), (#"{"name":"Alice"}"#, nil), (#""alice""#, nil),
    ])
    func aPartyHasAnIDAndAsNameAStringOrNone(_ json: String, _ party: ZegoCall.Party?) throws {
        #expect(ZegoCall.Party(try JSONParser.parse(Array(json.utf8))) == party)
    }

    @Test func whateverIsNotBusyIsADecline() {
        let reasons = ["busy", "declined", "later", nil]
        #expect(reasons.map { ZegoCall.Decline(reason: $0) } == [.busy, .declined, .declined, .declined])
        #expect([ZegoCall.Decline.declined, .busy].map(\.reason) == ["declined", "busy"])
    }
}
