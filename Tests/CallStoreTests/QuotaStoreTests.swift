import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallCore
@testable import CallStore

/// The promises of every store about the counts of users: a user's requests to other users, and the data that the store
/// keeps because of the user.
@Suite struct QuotaStoreTests {
    private let a = CallID("a")!

    private func count(
        _ test: StoreUnderTest, _ kind: Outstanding.Kind = .invitations, of user: UserID = alice, after: Milliseconds
    ) throws -> Int {
        try number(test, kind, of: user, after: after).count
    }

    private func number(
        _ test: StoreUnderTest, _ kind: Outstanding.Kind = .invitations, of user: UserID = alice, after: Milliseconds,
        limit: Int = 1_000
    ) throws -> OutstandingNumber {
        let count = OutstandingCount(kind, of: user, after: after, limit: limit)
        return try test.store.read([.outstanding(count)])[0].outstanding
    }

    @Test(arguments: StoreKind.allCases)
    func invitationsAreCountedByInviteeAsWell(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        let odd = UserID("a:b%/ü")!
        for (place, name) in ["a", "b", "d"].enumerated() {
            let invitees = place == 2 ? [bob] : [bob, odd]
            try test.write(call(name)) { commit in
                commit.asked = invitees.map {
                    (.invitation(of: $0, to: CallID(name)!, by: alice), now + 60_000)
                }
            }
        }
        let found = try number(test, after: now)
        #expect(found.count == 5)
        #expect(found.byInvitee == [bob: 3, odd: 2])
        #expect(try number(test, after: now, limit: 2).count == 2)
        #expect(try number(test, after: now, limit: 1_001) == OutstandingNumber(count: 5), "only where they are few")
        #expect(try number(test, .messages, after: now) == OutstandingNumber())
    }

    @Test(arguments: StoreKind.allCases)
    func whatWasAskedCountsUntilItIsSettled(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        #expect(try count(test, after: now) == 0)
        let asked = [bob, carol].map { Outstanding.invitation(of: $0, to: a, by: alice) }
        try test.write(call("a")) { $0.asked = asked.map { ($0, now + 60_000) } }
        #expect(try count(test, after: now) == 2)
        #expect(try count(test, .messages, after: now) == 0)
        #expect(try count(test, of: bob, after: now) == 0)
        // The same invitation is asked again, and counts no more than before.
        try test.write(call("a"), over: 1) { $0.asked = [(asked[0], now + 90_000)] }
        #expect(try count(test, after: now) == 2)
        #expect(try count(test, after: now + 60_000) == 1)
        try test.write(call("a"), over: 2) { $0.settled = [asked[0]] }
        #expect(try count(test, after: now) == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsNeverSettledCountsUntilItsTimeIsOver(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        try test.write(call("a")) { $0.asked = [(.invitation(of: bob, to: a, by: alice), now + 60_000)] }
        #expect(try count(test, after: now + 59_999) == 1)
        #expect(try count(test, after: now + 60_000) == 0)
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitThatLosesAsksNothing(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        try test.write(call("a"))
        let outcome = try test.write(call("a")) {
            $0.asked = [(.invitation(of: bob, to: a, by: alice), now + 60_000)]
        }
        #expect(outcome == .conflict)
        #expect(try count(test, after: now) == 0)
    }

    /// Two coordinators get copies of an invite: the copy that loses leaves the invitation counted.
    @Test(arguments: StoreKind.allCases)
    func aCopyThatLosesLeavesTheInvitationCounted(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        var ringing = call("a")
        ringing.members[0].invitedBy = bob
        let asked = Outstanding.invitation(of: ringing.members[0].userID, to: a, by: bob)
        try test.write(ringing) { $0.asked = [(asked, now + 60_000)] }
        let outcome = try test.write(ringing) { $0.asked = [(asked, now + 60_000)] }
        #expect(outcome == .conflict)
        #expect(try count(test, of: bob, after: now) == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func usersOfStrangeNamesAreCountedApart(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        let names = ["caf\u{e9}", "cafe\u{301}", "a:b", "a}:b", "\u{0}", "a"].map { UserID($0)! }
        try test.write(call("a")) { commit in
            commit.asked = names.map { (.invitation(of: $0, to: a, by: $0), now + 60_000) }
        }
        for name in names { #expect(try count(test, of: name, after: now) == 1) }
    }

    @Test(arguments: StoreKind.allCases)
    func bytesAreAddedUpByPeriod(kind: StoreKind) throws {
        let test = try kind.open()
        let until = try test.store.now() + 60_000
        let periods = [(alice, 7), (alice, 8)].map { StoredPeriod(of: $0.0, number: $0.1) }
        let queries: [Query] = [
            .storedBytes(StoredPeriods(of: alice, numbers: [7, 8])), .storedBytes(StoredPeriods(of: bob, numbers: [7])),
        ]
        #expect(try test.store.read(queries).map(\.storedBytes) == [[0, 0], [0]])
        try test.store.charge([
            StoredCharge(periods[0], bytes: 1_000, until: until), StoredCharge(periods[1], bytes: 50, until: until),
        ])
        try test.store.charge([StoredCharge(periods[0], bytes: 11, until: until)])
        #expect(try test.store.read(queries).map(\.storedBytes) == [[1_011, 50], [0]])
    }

    @Test(arguments: StoreKind.allCases)
    func aPeriodIsForgottenWhenItsTimeIsOver(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        let period = StoredPeriod(of: alice, number: 7)
        // Redis forgets by itself, other stores when they clean. The estimate of Redis's clock may be some milliseconds
        // off.
        try test.store.charge([StoredCharge(period, bytes: 1, until: now - 1_000)])
        _ = try test.store.clean(limit: 100)
        #expect(try test.store.read([.storedBytes(StoredPeriods(of: alice, numbers: [7]))])[0].storedBytes == [0])
    }

    /// Compares the estimate by which calls are counted with the written bytes.
    @Test func theApproximateBytesOfACallAreThoseOfItsRecordByAndLarge() {
        for seed in 0..<200 {
            var random = RandomRecord(seed: UInt64(seed))
            let call = random.call()
            let bytes = RecordCodec.encode(.call(call)).count
            #expect((bytes / 3...bytes * 3).contains(call.approximateBytes), "\(call.approximateBytes), \(bytes)")
        }
    }
}
