import CallCore
import CallStore
import SignalingProtocol
import Testing

/// What every store promises of its indexes: due deadlines, a user's calls, cleaning.
@Suite struct IndexTests {
    // Deadlines

    @Test(arguments: StoreKind.allCases)
    func callsAreDueAtTheirDeadlineTheEarliestFirst(kind: StoreKind) throws {
        let test = try kind.open()
        for (id, deadline) in [("late", 300), ("early", 100), ("middle", 200)] as [(String, Milliseconds)] {
            try test.write(call(id), deadline: deadline)
        }
        try test.write(call("never"))
        #expect(try test.due(before: 99).isEmpty)
        #expect(try test.due(before: 100) == ["early"])
        #expect(try test.due(before: 250) == ["early", "middle"])
        #expect(try test.due(before: .max) == ["early", "middle", "late"])
        #expect(try test.due(before: .max, limit: 2) == ["early", "middle"])
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitMovesOrRemovesTheDeadline(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"), deadline: 100)
        try test.write(call("a"), over: 1, deadline: 200)
        #expect(try test.due(before: 150).isEmpty)
        #expect(try test.due(before: 200) == ["a"])
        try test.write(call("a"), over: 2)
        #expect(try test.due(before: .max).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func ofSomeCallsThoseAreDueWhoseDeadlineHasCome(kind: StoreKind) throws {
        let test = try kind.open()
        for (id, deadline) in [("a", 100), ("b", 200), ("c", 150)] as [(String, Milliseconds)] {
            try test.write(call(id), deadline: deadline)
        }
        try test.write(call("never"))
        func due(_ ids: [String], before moment: Milliseconds) throws -> [String] {
            try test.store.due(ids.map { .call(CallID($0)!) }, before: moment).map(\.string)
        }
        let all = ["never", "c", "missing", "b", "a"]
        #expect(try due(all, before: 99).isEmpty)
        #expect(try due(all, before: 150) == ["c", "a"])
        #expect(try due(all, before: .max) == ["c", "b", "a"])
        #expect(try due(["b"], before: .max) == ["b"], "nothing that was not asked for")
        #expect(try due([], before: .max).isEmpty)
        try test.write(call("a"), over: 1, deadline: 300)
        #expect(try due(all, before: 150) == ["c"], "somebody moved it")
    }

    @Test(arguments: StoreKind.allCases)
    func aCallStaysDueUntilSomebodyCommitsIt(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"), deadline: 100)
        #expect(try test.due(before: 100) == ["a"])
        #expect(try test.due(before: 100) == ["a"])
    }

    // A user's calls

    @Test(arguments: StoreKind.allCases)
    func aUsersCallsAreThoseThatLiveOrEndedSinceTheNewestFirst(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("live", createdAt: 100))
        try test.write(call("over", createdAt: 200, endedAt: 500))
        try test.write(call("new", createdAt: 300))
        try test.write(call("others", [alice, carol], createdAt: 400))
        #expect(try test.calls(bob) == ["new", "over", "live"])
        #expect(try test.calls(bob, endedAfter: 499) == ["new", "over", "live"])
        #expect(try test.calls(bob, endedAfter: 500) == ["new", "live"])
        #expect(try test.calls(bob, endedAfter: .max - 1) == ["new", "live"])
        #expect(try test.calls(bob, limit: 2) == ["new", "over"])
        #expect(try test.calls(alice) == ["others", "new", "over", "live"])
        #expect(try test.calls(UserID("nobody")!).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func newestMeansLastCreatedNotLastWritten(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("second", createdAt: 200))
        try test.write(call("first", createdAt: 100))
        #expect(try test.calls(alice) == ["second", "first"])
        try test.write(call("first", [alice, bob, carol], createdAt: 100), over: 1)
        #expect(try test.calls(alice) == ["second", "first"])
    }

    @Test(arguments: StoreKind.allCases)
    func aMemberAddedLaterHasTheCallToo(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        #expect(try test.calls(carol).isEmpty)
        try test.write(call("a", [alice, bob, carol]), over: 1)
        #expect(try test.calls(carol) == ["a"])
    }

    @Test(arguments: StoreKind.allCases)
    func aCallThatEndsLeavesTheLiveOnes(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.write(call("a", endedAt: 700), over: 1)
        #expect(try test.calls(bob, endedAfter: 700).isEmpty)
        #expect(try test.calls(bob, endedAfter: 699) == ["a"])
    }

    @Test(arguments: StoreKind.allCases)
    func aUsersHistoryIsCappedAtTheNewestEndedCalls(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 3)
        try writeEnded(6, into: test)
        #expect(try test.history(alice) == ["c6", "c5", "c4"])
        #expect(try test.history(bob) == ["c6", "c5", "c4"])
    }

    /// Calls "c1", "c2" and so on, one after the other.
    private func writeEnded(_ count: Int, into test: StoreUnderTest) throws {
        for number in 1...count {
            let created = Milliseconds(number) * 100
            try test.write(call("c\(number)", createdAt: created, endedAt: created + 50))
        }
    }

    /// A store may look after its lists now and then, and not at each call.
    @Test(arguments: StoreKind.allCases)
    func whatIsBeyondTheCapIsRemovedInTheEnd(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 10)
        try writeEnded(40, into: test)
        #expect(try test.calls(alice).count <= 12)
        #expect(try test.calls(alice).prefix(10).elementsEqual((31...40).reversed().map { "c\($0)" }))
    }

    @Test(arguments: StoreKind.allCases)
    func theCapNeverTakesALiveCall(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 2)
        try test.write(call("live", createdAt: 1))
        for number in 1...5 {
            try test.write(call("c\(number)", createdAt: Milliseconds(number) * 100, endedAt: 9999))
        }
        #expect(try test.history(alice) == ["c5", "c4", "live"])
    }

    /// "200 ended calls per user": live calls do not use it up. Otherwise a call that has just ended is no longer
    /// found, and its end never told.
    @Test(arguments: StoreKind.allCases)
    func liveCallsDoNotCountAsHistory(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 2)
        try test.write(call("old", createdAt: 1))
        for number in 1...3 { try test.write(call("live\(number)", createdAt: Milliseconds(number) * 100)) }
        try test.write(call("old", createdAt: 1, endedAt: 500), over: 1)
        #expect(try test.calls(alice) == ["live3", "live2", "live1", "old"])
    }

    // Cleaning

    @Test(arguments: StoreKind.allCases)
    func cleaningRemovesWhatIsOverAndNothingElse(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        try test.write(call("over", endedAt: 1), expiresAt: now + 1000) {
            $0.notes = [.heard(CallID("over")!, UserHeard(userID: alice, at: 5))]
        }
        try test.write(call("kept", endedAt: 1), expiresAt: now + 60_000)
        try test.write(call("live"))
        try test.store.commit([
            Commit(
                .call(CallID("cancel")!), record: .cancelled(by: alice, at: now), expected: 0, deadline: nil,
                expiresAt: now + 1000)
        ]).forEach { #expect($0 == .committed(version: 1)) }
        #expect(try test.store.clean(limit: 100) == 0)
        try test.pass(10_000)
        // Redis removes by itself, and forgets what is gone from a list when the next call ends.
        let cleaned = kind == .redis ? 0 : 2
        #expect(try test.store.clean(limit: 100) == cleaned)
        #expect(try test.load("over") == nil)
        #expect(try test.load("cancel") == nil)
        #expect(try test.load("kept") != nil)
        #expect(try test.load("live") != nil)
        if kind != .redis { #expect(try test.calls(alice).sorted() == ["kept", "live"]) }
        #expect(try test.store.clean(limit: 100) == 0)
        #expect(try test.write(call("over")) == .committed(version: 1), "the id may be used again")
        #expect(try test.load("over")?.heard.isEmpty == true)
    }

    /// Redis removes what has expired by itself.
    @Test(arguments: [StoreKind.memory, .sqlite])
    func cleaningRemovesNoMoreAtOnceThanItsLimit(kind: StoreKind) throws {
        let test = try kind.open()
        for number in 1...5 { try test.write(call("c\(number)", endedAt: 1), expiresAt: 1) }
        #expect(try test.store.clean(limit: 2) == 2)
        #expect(try test.store.clean(limit: 2) == 2)
        #expect(try test.store.clean(limit: 2) == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func cleaningForgetsDevicesWhoseLeaseIsLongOver(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.online(alicePhone, "s1") == .current)
        try test.offline(alicePhone, "s1")
        #expect(try test.online(bobPhone, "s1") == .current)
        _ = try test.store.clean(limit: 100)
        #expect(try test.presence(alicePhone) != nil)
        try test.pass(PresencePolicy().lease + 1000)
        #expect(try test.online(bobPhone, "s1") == .current)
        _ = try test.store.clean(limit: 100)
        #expect(try test.presence(alicePhone) == nil)
        #expect(try test.presence(bobPhone) != nil)
    }
}
