import CallCore
import FuzzEntries
import CallStore
import SignalingProtocol
import Testing

/// Section 1 of the protocol: "Ids are compared as bytes: no normalisation."
@Suite struct IdentifierTests {
    /// Pairs that some comparison would hold equal.
    static let pairs: [(UserID, UserID)] = [
        (UserID("Z\u{fc}rich")!, UserID("Zu\u{308}rich")!),
        (UserID("\u{212B}")!, UserID("\u{C5}")!),
        (UserID("a")!, UserID("a\u{0}")!),
        (UserID("a\u{0}b")!, UserID("a\u{0}c")!),
        (UserID("\u{0}")!, UserID("\u{0}\u{0}")!),
        (UserID("a")!, UserID("A")!),
        (UserID("a")!, UserID("a ")!),
        (UserID("1")!, UserID("1.0")!),
    ]

    /// An index entry with one colon too many was taken for another message.
    @Test(arguments: ["::m1:bob", ":m1:", "::bob", ":m1", ":", ""])
    func whatIsNoRecordIDIsNone(text: String) {
        #expect(RecordID(text) == nil)
    }

    @Test(arguments: StoreKind.allCases, 0..<pairs.count)
    func twoSpellingsAreTwoUsers(kind: StoreKind, number: Int) throws {
        let (one, other) = Self.pairs[number]
        let test = try kind.open()
        let device = DeviceID("phone")!
        #expect(one != other)

        try test.write(call("a", [alice, one, other])) {
            $0.claims = [.activeCall(of: one), .ringing(from: alice, to: one)]
            $0.notes = [
                .heard(CallID("a")!, UserHeard(userID: one, at: 1)),
                .heard(CallID("a")!, UserHeard(userID: other, at: 2)),
                .ack(
                    CallID("a")!,
                    DeviceAck(device: DeviceAddress(userID: one, deviceID: device), session: "", revision: 1)),
            ]
        }
        try test.write(call("b", [alice, other]))
        let stored = try #require(try test.load("a"))
        #expect(stored.record == .call(call("a", [alice, one, other])))
        #expect(Set(stored.heard.map(\.userID)) == [one, other])
        #expect(stored.acks.map(\.device.userID) == [one])
        #expect(try test.calls(one) == ["a"])
        #expect(Set(try test.calls(other)) == ["a", "b"])
        #expect(try test.holder(.activeCall(of: other)) == nil)
        #expect(try test.holder(.ringing(from: alice, to: other)) == nil)
        #expect(try test.holder(.activeCall(of: one)) == "a")

        _ = try test.online(DeviceAddress(userID: one, deviceID: device), "s")
        #expect(try test.store.devices(of: [one, other]).map(\.count) == [1, 0])
        #expect(try test.store.devices(of: [one])[0].map(\.device.userID) == [one])
    }

    @Test(arguments: StoreKind.allCases)
    func twoSpellingsAreTwoSessions(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "\u{fc}")
        #expect(try !test.offline(alicePhone, "u\u{308}"))
        #expect(try test.isReachable(alicePhone))
        try test.write(call("a"))
        try test.store.note([
            .ack(CallID("a")!, DeviceAck(device: alicePhone, session: "\u{fc}", revision: 5)),
            .ack(CallID("a")!, DeviceAck(device: alicePhone, session: "u\u{308}", revision: 2)),
        ])
        #expect(try test.load("a")?.acks.map(\.revision) == [2])
    }
}
