import CallCore
import CallStore
import FuzzEntries
import SignalingProtocol
import Testing

/// The index of live calls and invitations, from which metrics read.
@Suite struct LiveCountsTests {
    @Test(arguments: StoreKind.allCases)
    func liveCallsAndTheirPendingInvitationsAreCounted(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.store.liveCounts() == LiveCounts())
        for (place, id) in ["a", "b", "c", "d"].enumerated() {
            try test.write(call(id)) { $0.liveChange = .live(ringing: place) }
        }
        try test.write(call("many")) { $0.liveChange = .live(ringing: 99) }
        #expect(try test.store.liveCounts() == LiveCounts(calls: 5, ringing: 105))
        try test.write(call("many"), over: 1, expiresAt: .max) { $0.liveChange = .over }
        #expect(try test.store.liveCounts() == LiveCounts(calls: 4, ringing: 6))
        try test.write(call("d"), over: 1) { $0.liveChange = .live(ringing: 0) }
        try test.write(call("c"), over: 1)
        #expect(try test.store.liveCounts() == LiveCounts(calls: 4, ringing: 3))
        #expect(try test.write(call("c"), over: 1) { $0.liveChange = .over } == .conflict)
        #expect(try test.store.liveCounts() == LiveCounts(calls: 4, ringing: 3), "a lost commit changes nothing")
        try test.write(call("c"), over: 2, expiresAt: .max) { $0.liveChange = .over }
        #expect(try test.store.liveCounts() == LiveCounts(calls: 3, ringing: 1))
    }

    @Test(arguments: StoreKind.allCases)
    func devicesAreCountedWhileTheyAreOnline(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        _ = try test.online(alicePhone, "s2")
        _ = try test.online(bobPhone, "s1")
        #expect(try test.store.liveCounts().devices == 2)
        #expect(try !test.offline(alicePhone, "s1"), "another session")
        #expect(try test.store.liveCounts().devices == 2)
        try test.offline(alicePhone, "s2")
        #expect(try test.store.liveCounts().devices == 1)
        try test.pass(PresencePolicy().lease / 2)
        try test.store.tidyLiveCounts()
        try test.store.renew([bobPhone])
        try test.pass(PresencePolicy().lease / 2 + 1_000)
        #expect(try test.store.liveCounts().devices == 1)
        try test.pass(PresencePolicy().lease)
        #expect(try test.store.liveCounts().devices == 0)
    }

    /// An older version ends calls without a change of the index.
    @Test(arguments: StoreKind.allCases.filter { $0 != .memory })
    func callsThatAnOlderVersionHasEndedAreForgotten(kind: StoreKind) throws {
        let test = try kind.open()
        for place in 0..<100 { try test.write(call("c\(place)")) { $0.liveChange = .live(ringing: 1) } }
        for place in 0..<99 { try test.write(call("c\(place)"), over: 1, expiresAt: .max) }
        var counts = try test.store.liveCounts()
        #expect(counts == LiveCounts(calls: 100, ringing: 100))
        for _ in 0..<100 where counts.calls > 1 {
            try test.store.tidyLiveCounts()
            counts = try test.store.liveCounts()
        }
        #expect(counts == LiveCounts(calls: 1, ringing: 1))
    }

    @Test func theChangeOfACallIsSeenFromItsStates() {
        let ringing = call("a")
        #expect(LiveChange(from: nil, to: ringing) == .live(ringing: 2))
        #expect(LiveChange(from: ringing, to: ringing) == nil)
        let ended = call("a", endedAt: 5)
        #expect(LiveChange(from: ringing, to: ended) == .over)
        #expect(LiveChange(from: nil, to: ended) == nil)
    }
}
