@testable import CallCore
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore

/// The promises of every store about peer messages, profiles, histories, reports and timelines.
@Suite struct UserStoreTests {
    // Deleting

    @Test(arguments: StoreKind.allCases)
    func ofAnErasedUserOnlyTheCallsOfOthersAreLeft(kind: StoreKind) throws {
        let test = try kind.open()
        let policy = PresencePolicy()
        let now = try test.store.now()
        var ended = call("ended")
        try test.write(ended)
        ended.state = .ended
        ended.endedAt = now
        try test.write(ended, over: 1) { $0.hasJustEnded = true }
        try test.write(call("live"))
        for id in ["ended", "live"] {
            let callID = CallID(id)!
            try test.store.note([
                .ack(callID, DeviceAck(device: alicePhone, session: "s", revision: 1)),
                .ack(callID, DeviceAck(device: bobPhone, session: "s", revision: 1)),
                .heard(callID, UserHeard(userID: alice, at: now)), .heard(callID, UserHeard(userID: bob, at: now)),
                .milestone(callID, alicePhone, Milestone(name: "a", milliseconds: 1)),
                .milestone(callID, bobPhone, Milestone(name: "a", milliseconds: 1)),
            ])
            let entry = TraceEntry(time: now, coordinator: "c", step: .presence(alicePhone, state: "online"))
            try test.store.trace([CallTrace(callID, [entry])], life: 60_000)
        }
        _ = try test.store.update(alice, .init(name: "Alice"))
        _ = try test.store.set(Block(by: alice, of: bob), true)
        _ = try test.store.set(Block(by: carol, of: alice), true)
        _ = try test.store.set(Block(by: carol, of: bob), true)
        _ = try test.store.cameOnline(
            [DeviceSession(alicePhone, id: "s"), DeviceSession(bobPhone, id: "s")], policy: policy)
        _ = try test.store.wentOffline([DeviceSession(alicePhone, id: "old")], policy: policy)
        #expect(try write(test, try message("m", to: alice, at: now), over: 0) == .committed(version: 1))

        try test.store.erase(alice)
        #expect(try test.store.history(of: alice, after: nil, limit: 9).isEmpty)
        #expect(try test.store.history(of: bob, after: nil, limit: 9).count == 2)
        for id in ["ended", "live"] {
            let stored = try #require(try test.store.load([CallID(id)!])[0])
            #expect(stored.acks.map(\.device) == [bobPhone] && stored.heard.map(\.userID) == [bob])
            #expect(stored.reports.map(\.device) == [bobPhone])
            #expect(try test.store.timeline(of: CallID(id)!).entries.isEmpty)
        }
        #expect(try test.store.profiles(of: [alice])[0] == nil)
        #expect(try test.store.devices(of: [alice])[0].isEmpty && test.store.devices(of: [bob])[0].count == 1)
        #expect(try test.store.blockList(of: alice).isEmpty && test.store.blockList(of: carol) == [bob])
        #expect(try test.store.messages(MessageList(for: alice, limit: 9)).isEmpty)
        #expect(try test.store.load([.message(MessageID("m")!, to: alice)])[0] == nil)
        #expect(try test.store.cameOnline([DeviceSession(alicePhone, id: "old")], policy: policy) == [.over])

        // The live call ends: nothing of the erased user comes back with the end.
        var end = call("live")
        (end.state, end.endedAt) = (.ended, now)
        try test.write(end, over: 1) { $0.hasJustEnded = true }
        #expect(try test.store.history(of: alice, after: nil, limit: 9).isEmpty)
        try test.store.erase(alice)
    }

    // Peer messages

    private func message(_ id: String, to user: UserID = bob, at created: Milliseconds) throws -> PeerMessage {
        let request = Request.Message(
            to: user, data: try #require(JSONText(#"{"a": "ü\u0000"}"#)), seq: 5, stream: "run_-2")
        let key = RequestKey(device: alicePhone, requestID: RequestID("r")!)
        return PeerMessage(
            request, messageID: MessageID(id)!, origin: key, ttl: 30_000, isWithheld: false, now: created)
    }

    private func write(_ test: StoreUnderTest, _ message: PeerMessage, over version: Int64) throws -> CommitOutcome {
        try test.store.commit([
            Commit(
                .message(message.messageID, to: message.to), record: .message(message), expected: version,
                deadline: message.nextDeadline, expiresAt: message.finishedAt.map { $0 + 1000 })
        ])[0]
    }

    @Test(arguments: StoreKind.allCases)
    func aMessageIsKeptUntilItIsFinishedAndListedWhileItWaits(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        var second = try message("second", at: now)
        let first = try message("first", at: now - 10)
        for message in [second, first, try message("second", to: carol, at: now)] {
            #expect(try write(test, message, over: 0) == .committed(version: 1))
        }
        let id = RecordID.message(second.messageID, to: bob)
        #expect(try test.store.load([id])[0] == StoredRecord(id, version: 1, record: .message(second)))
        #expect(try test.store.messages(MessageList(for: bob, limit: 9)) == [.message(first.messageID, to: bob), id])
        #expect(try test.store.messages(MessageList(for: bob, limit: 1)) == [.message(first.messageID, to: bob)])
        #expect(try test.store.due(before: now + 995, limit: 9) == [.message(first.messageID, to: bob)])
        #expect(try write(test, second, over: 0) == .conflict)

        let isChanged = second.acknowledged(now: now + 5)
        #expect(isChanged)
        #expect(try write(test, second, over: 1) == .committed(version: 2))
        #expect(try test.store.load([id])[0]?.record == .message(second))
        #expect(try test.store.messages(MessageList(for: bob, limit: 9)) == [.message(first.messageID, to: bob)])
        #expect(try test.store.due(before: now + 60_000, limit: 9).contains(id))
        second.receiptSent()
        #expect(try write(test, second, over: 2) == .committed(version: 3))
        #expect(try !test.store.due(before: now + 60_000, limit: 9).contains(id))
    }

    @Test(arguments: StoreKind.allCases)
    func aMessageThatIsWithheldIsKeptAndListedNowhere(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        let request = Request.Message(to: bob, data: try #require(JSONText("1")))
        let message = PeerMessage(
            request, messageID: MessageID("m")!, origin: RequestKey(device: alicePhone, requestID: RequestID("r")!),
            ttl: 30_000, isWithheld: true, now: now)
        #expect(try write(test, message, over: 0) == .committed(version: 1))
        let id = RecordID.message(message.messageID, to: bob)
        #expect(try test.store.load([id])[0]?.record == .message(message))
        #expect(try test.store.messages(MessageList(for: bob, limit: 9)) == [])
        #expect(try test.store.due(before: now + 60_000, limit: 9) == [id])
    }

    // Blocks

    @Test(arguments: StoreKind.allCases)
    func aBlockStandsUntilItIsTakenBack(kind: StoreKind) throws {
        let store = try kind.open().store
        let (first, second) = (Block(by: bob, of: alice), Block(by: bob, of: carol))
        let reverse = Block(by: alice, of: bob)
        #expect(try store.set(second, true) && store.set(first, true) && store.set(first, true))
        #expect(try store.isBlocked([first, reverse, second]) == [true, false, true])
        #expect(try store.blockList(of: bob) == [alice, carol])
        #expect(try store.blockList(of: alice) == [])
        #expect(try store.set(first, false) && store.set(first, false))
        #expect(try store.isBlocked([first, second]) == [false, true])
        #expect(try store.read([.profile(bob), .block(second)])[1].isBlocked)
    }

    @Test(arguments: StoreKind.allCases)
    func aFullListTakesNoMore(kind: StoreKind) throws {
        let store = try kind.open().store
        for number in 0..<Limits.blockedUsers {
            #expect(try store.set(Block(by: bob, of: UserID("u\(number)")!), true))
        }
        #expect(try !store.set(Block(by: bob, of: alice), true))
        #expect(try store.set(Block(by: bob, of: UserID("u0")!), true))
        #expect(try store.blockList(of: bob).count == Limits.blockedUsers)
    }

    @Test(arguments: StoreKind.allCases)
    func aFinishedMessageIsForgottenInItsTime(kind: StoreKind) throws {
        let test = try kind.open()
        var message = try message("m", at: try test.store.now())
        _ = message.acknowledged(now: try test.store.now())
        message.receiptSent()
        #expect(try write(test, message, over: 0) == .committed(version: 1))
        try test.pass(2_000)
        _ = try test.store.clean(limit: 100)
        #expect(try test.store.load([RecordID.message(message.messageID, to: bob)])[0] == nil)
    }

    @Test(arguments: ["a", "A-z_9", ":m:bob", ":m:b/o:b", ":m:\u{0}ü"])
    func anIdIsReadBackFromItsText(text: String) throws {
        let id = try #require(RecordID(text))
        #expect(id.string == text)
    }

    @Test(arguments: ["", ":", ":m", ":m:", "a:b", "::bob", ":m m:bob"])
    func whatIsNoIdIsRefused(text: String) { #expect(RecordID(text) == nil) }

    // Profiles

    @Test(arguments: StoreKind.allCases)
    func aUserBecomesKnownByComingOnlineOrByAProfile(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.store.profiles(of: [alice, bob]) == [nil, nil])
        _ = try test.online(alicePhone, "s")
        #expect(try test.store.profiles(of: [alice, bob]) == [UserProfile(), nil])
        let name = "B\u{0}ob 😀"
        #expect(
            try test.store.update(bob, .init(name: name, extendedData: "x"))
                == UserProfile(name: name, extendedData: "x"))
        #expect(
            try test.store.update(bob, .init(avatarURL: "u", extendedData: ""))
                == UserProfile(name: name, avatarURL: "u"))
        #expect(try test.store.profiles(of: [bob, alice]) == [UserProfile(name: name, avatarURL: "u"), UserProfile()])
        // Coming online does not touch a profile, and a known user stays known.
        _ = try test.online(bobPhone, "s")
        try test.offline(alicePhone, "s")
        try test.pass(PresencePolicy().lease * 2)
        _ = try test.store.clean(limit: 100)
        #expect(try test.store.profiles(of: [bob, alice]) == [UserProfile(name: name, avatarURL: "u"), UserProfile()])
    }

    // History

    @Test(arguments: StoreKind.allCases)
    func aHistoryIsReadInPagesTheNewestFirst(kind: StoreKind) throws {
        let test = try kind.open()
        for (id, created) in [("b", 100), ("a", 100), ("c", 50), ("d", 200)] as [(String, Milliseconds)] {
            try test.write(call(id, createdAt: created, endedAt: id == "c" ? 300 : nil))
        }
        func page(_ after: (String, Milliseconds)?, _ limit: Int) throws -> [String] {
            let place = after.map { HistoryPlace(createdAt: $0.1, callID: CallID($0.0)!) }
            return try test.store.history(of: alice, after: place, limit: limit).map(\.callID.string)
        }
        #expect(try page(nil, 9) == ["d", "b", "a", "c"])
        #expect(try page(nil, 2) == ["d", "b"])
        #expect(try page(("b", 100), 2) == ["a", "c"])
        #expect(try page(("c", 50), 2) == [])
        // A place may name a call that is not kept.
        #expect(try page(("bb", 100), 9) == ["b", "a", "c"])
        #expect(try page(("x", 0), 9) == [])
        #expect(try test.store.history(of: carol, after: nil, limit: 9).isEmpty)
    }

    // Reports

    @Test(arguments: StoreKind.allCases)
    func milestonesAreKeptBesideTheCallByDeviceAndName(kind: StoreKind) throws {
        let test = try kind.open()
        let id = CallID("a")!
        // The id has a slash, and a mark that Swift would join to the character before.
        let odd = DeviceAddress(userID: UserID("\u{301}o/d\u{0}d")!, deviceID: DeviceID("d.~")!)
        try test.write(call("a"))
        try test.store.note([
            .milestone(id, bobPhone, Milestone(name: "x", milliseconds: 5)),
            .milestone(id, odd, Milestone(name: "x", milliseconds: 6)),
            .milestone(id, bobPhone, Milestone(name: "x", milliseconds: 4)),
            .milestone(id, bobPhone, Milestone(name: "a-1", milliseconds: 86_400_000)),
            .ack(id, DeviceAck(device: odd, session: "\u{301}", revision: 1)),
            .heard(id, UserHeard(userID: odd.userID, at: 7)),
            .milestone(CallID("none")!, bobPhone, Milestone(name: "x", milliseconds: 1)),
        ])
        #expect(
            try test.load("a")?.reports == [
                DeviceReport(
                    device: bobPhone,
                    milestones: [
                        Milestone(name: "a-1", milliseconds: 86_400_000), Milestone(name: "x", milliseconds: 4),
                    ]), DeviceReport(device: odd, milestones: [Milestone(name: "x", milliseconds: 6)]),
            ])
        #expect(try test.load("a")?.acks == [DeviceAck(device: odd, session: "\u{301}", revision: 1)])
        #expect(try test.load("a")?.heard == [UserHeard(userID: odd.userID, at: 7)])
        #expect(try test.load("a")?.version == 1)
        #expect(try test.load("none") == nil)
        try test.write(call("a", media: "video"), over: 1)
        #expect(try test.load("a")?.reports.count == 2)
    }

    // Timelines

    private func entries(_ range: ClosedRange<Int>) -> [TraceEntry] {
        range.map { TraceEntry(time: Int64($0), coordinator: "c\"1", step: .ack(bobPhone, revision: $0)) }
    }

    @Test(arguments: StoreKind.allCases)
    func aTimelineKeepsItsLastEntriesAndCountsTheOthers(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.write(call("b"))
        let (a, b) = (CallID("a")!, CallID("b")!)
        #expect(try test.store.timeline(of: a) == Timeline(entries: []))
        try test.store.trace([CallTrace(a, entries(1...3)), CallTrace(b, entries(9...9))], life: 60_000)
        try test.store.trace([CallTrace(a, entries(4...200))], life: 60_000)
        #expect(try test.store.timeline(of: a) == Timeline(entries: entries(1...200)))
        try test.store.trace([CallTrace(a, entries(201...250))], life: 60_000)
        #expect(try test.store.timeline(of: a) == Timeline(entries: entries(51...250), omitted: 50))
        try test.store.trace([CallTrace(a, entries(251...900))], life: 60_000)
        #expect(try test.store.timeline(of: a) == Timeline(entries: entries(701...900), omitted: 700))
        #expect(try test.store.timeline(of: b) == Timeline(entries: entries(9...9)))
    }

    @Test(arguments: StoreKind.allCases)
    func aCoordinatorThatWritesLateDropsNoLaterEntries(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        let a = CallID("a")!
        try test.store.trace([CallTrace(a, entries(101...250))], life: 60_000)
        try test.store.trace([CallTrace(a, entries(1...100))], life: 60_000)
        #expect(try test.store.timeline(of: a) == Timeline(entries: entries(51...250), omitted: 50))
        try test.store.trace([CallTrace(a, entries(20...40))], life: 60_000)
        #expect(try test.store.timeline(of: a) == Timeline(entries: entries(51...250), omitted: 71))
        try test.store.trace([CallTrace(a, entries(60...60))], life: 60_000)
        let expected = entries(52...60) + entries(60...60) + entries(61...250)
        #expect(try test.store.timeline(of: a) == Timeline(entries: expected, omitted: 72))
    }

    /// Coordinators write entries later than the steps happen, and many steps have the same millisecond.
    @Test(arguments: StoreKind.allCases)
    func whatKnowsARevisionStandsBehindIt(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        let a = CallID("a")!
        func asked(_ type: String) -> TraceEntry.Step { .request(bobPhone, type: type, outcome: "ok") }
        func made(_ revision: Int) -> TraceEntry.Step {
            .transition(revision: revision, state: .ringing, endReason: nil, actor: nil, changes: [])
        }
        func sent(_ revision: Int) -> TraceEntry.Step {
            .send(.invited, to: bobPhone.userID, device: nil, revision: revision, online: 1, isResend: false)
        }
        func acked(_ revision: Int) -> TraceEntry.Step { .ack(bobPhone, revision: revision) }
        func by(_ coordinator: String, _ steps: [TraceEntry.Step]) -> [TraceEntry] {
            steps.map { TraceEntry(time: 7, coordinator: coordinator, step: $0) }
        }
        let inviting = by("c1", [asked("call.invite"), made(1), sent(1), acked(2)])
        let hearing = by("c2", [acked(1), made(2), sent(2), asked("call.reject"), made(3)])
        for entries in [hearing, inviting] { try test.store.trace([CallTrace(a, entries)], life: 60_000) }
        let expected = inviting[..<3] + hearing + inviting[3...]
        #expect(try test.store.timeline(of: a).entries == Array(expected))
    }

    @Test func aTimelineGoesWithItsCall() throws {
        let test = try StoreKind.sqlite.open()
        try test.write(call("a", endedAt: 5), expiresAt: try test.store.now() - 1)
        try test.store.trace([CallTrace(CallID("a")!, entries(1...3))], life: 60_000)
        _ = try test.store.clean(limit: 9)
        #expect(try test.store.timeline(of: CallID("a")!).entries.isEmpty)
        try test.store.trace([CallTrace(CallID("a")!, entries(1...3))], life: 60_000)
        #expect(try test.store.timeline(of: CallID("a")!).entries.isEmpty)
    }
}
