@testable import CallCore
import FuzzEntries
import CallStore
import SignalingProtocol
import Testing

/// The promises of every store about its indexes: due deadlines, a user's calls, cleaning.
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

    /// Writes the calls "c1", "c2" and so on, one after another.
    private func writeEnded(_ count: Int, into test: StoreUnderTest) throws {
        for number in 1...count {
            let created = Milliseconds(number) * 100
            try test.write(call("c\(number)", createdAt: created, endedAt: created + 50))
        }
    }

    /// A store may look after its lists now and then instead of at each call, also while other users call.
    @Test(arguments: StoreKind.allCases)
    func whatIsBeyondTheCapIsNeverListedAndRemovedInTheEnd(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 10)
        var longest: [Int] = []
        for number in 11...210 {
            let created = Milliseconds(number) * 100
            try test.write(call("c\(number)", createdAt: created, endedAt: created + 50))
            try test.write(call("other\(number)", [carol, bob], createdAt: created, endedAt: created + 50))
            guard number > 20 else { continue }
            let newest = (number - 9...number).reversed().map { "c\($0)" }
            #expect(try test.history(alice) == newest)
            #expect(try test.calls(alice).prefix(10).elementsEqual(newest))
            longest.append(try test.calls(alice).count)
        }
        #expect(longest.max()! < 40)
        #expect(longest.min()! <= 11)
    }

    @Test(arguments: StoreKind.allCases)
    func aHistoryIsReadOnFromAPlaceWithinTheCap(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 10)
        try test.write(call("live", createdAt: 1))
        try writeEnded(17, into: test)
        let place = HistoryPlace(createdAt: 900, callID: CallID("c9")!)
        let rest = try test.store.history(of: alice, after: place, limit: 100)
        #expect(rest.map(\.callID.string) == ["c8", "live"])
        #expect(try test.store.history(of: alice, after: rest[0], limit: 100).map(\.callID.string) == ["live"])
        #expect(try test.store.history(of: alice, after: nil, limit: 3).map(\.callID.string) == ["c17", "c16", "c15"])
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

    /// "200 ended calls per user": live calls do not use this number up. Otherwise a call that has just ended would no
    /// longer be found, and its end would never be told.
    @Test(arguments: StoreKind.allCases)
    func liveCallsDoNotCountAsHistory(kind: StoreKind) throws {
        let test = try kind.open(historyPerUser: 2)
        try test.write(call("old", createdAt: 1))
        for number in 1...3 { try test.write(call("live\(number)", createdAt: Milliseconds(number) * 100)) }
        try test.write(call("old", createdAt: 1, endedAt: 500), over: 1)
        #expect(try test.calls(alice) == ["live3", "live2", "live1", "old"])
    }

    /// A call stands in the lists of the users who take part, and not in the list of a user whose invitation is
    /// withheld.
    @Test(arguments: StoreKind.allCases)
    func anEntryComesAndGoesWithItsUsersPart(kind: StoreKind) throws {
        let test = try kind.open()
        var version: Int64 = 0
        func write(withheld: Bool, endedAt: Milliseconds? = nil) throws {
            var call = call("a", endedAt: endedAt)
            call.members[1].isWithheld = withheld
            #expect(try test.write(call, over: version) == .committed(version: version + 1))
            version += 1
        }
        try write(withheld: true)
        #expect(try test.calls(bob).isEmpty)
        try write(withheld: false)
        #expect(try test.calls(bob) == ["a"])
        try write(withheld: true)
        #expect(try test.calls(bob).isEmpty)
        try write(withheld: true, endedAt: 700)
        #expect(try test.calls(bob).isEmpty)
        #expect(try test.history(alice) == ["a"])
        try write(withheld: false, endedAt: 700)
        #expect(try test.history(bob) == ["a"])
        #expect(try test.calls(bob, endedAfter: 700).isEmpty)
    }

    // Cleaning

    /// A new record takes nothing over from the former record under its id.
    @Test(arguments: [StoreKind.memory, .sqlite])
    func ofWhatIsRemovedNothingIsLeftForTheNextCall(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("over", endedAt: 1), expiresAt: 1) {
            $0.claims = [.activeCall(of: alice)]
            $0.notes = [
                .heard(CallID("over")!, UserHeard(userID: alice, at: 5)),
                .ack(CallID("over")!, DeviceAck(device: alicePhone, session: "s", revision: 3)),
                .milestone(CallID("over")!, alicePhone, Milestone(name: "shown", milliseconds: 7)),
            ]
        }
        let entry = TraceEntry(time: 5, coordinator: "c1", step: .deadline(late: 0))
        try test.store.trace([CallTrace(CallID("over")!, [entry])], life: 60_000)
        #expect(try test.load("over")?.acks.count == 1)
        #expect(try test.store.clean(limit: 10) == 1)
        #expect(try test.write(call("next", [bob, carol])) == .committed(version: 1))
        #expect(
            try test.load("next")
                == StoredRecord(.call(CallID("next")!), version: 1, record: .call(call("next", [bob, carol]))))
        #expect(try test.store.timeline(of: CallID("next")!).entries.isEmpty)
        #expect(try test.holder(.activeCall(of: alice)) == nil)
        #expect(try test.calls(alice).isEmpty)
    }

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
        // Redis removes expired records by itself, and forgets a removed call in a list when the next call ends.
        let cleaned = kind.isRedis ? 0 : 2
        #expect(try test.store.clean(limit: 100) == cleaned)
        #expect(try test.load("over") == nil)
        #expect(try test.load("cancel") == nil)
        #expect(try test.load("kept") != nil)
        #expect(try test.load("live") != nil)
        if !kind.isRedis { #expect(try test.calls(alice).sorted() == ["kept", "live"]) }
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
        #expect(try test.online(alicePhone, "s1") == .current())
        try test.offline(alicePhone, "s1")
        #expect(try test.online(bobPhone, "s1") == .current())
        _ = try test.store.clean(limit: 100)
        #expect(try test.presence(alicePhone) != nil)
        try test.pass(PresencePolicy().lease + 1000)
        #expect(try test.online(bobPhone, "s1") == .current())
        _ = try test.store.clean(limit: 100)
        #expect(try test.presence(alicePhone) == nil)
        #expect(try test.presence(bobPhone) != nil)
    }
}
