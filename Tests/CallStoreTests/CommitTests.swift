import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore

/// The promises of every store about commits and claims.
@Suite struct CommitTests {
    @Test(arguments: StoreKind.allCases)
    func whatWasCommittedIsLoaded(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.load("a") == nil)
        let written = call("a", media: "video")
        #expect(try test.write(written) == .committed(version: 1))
        #expect(try test.load("a") == StoredRecord(.call(written.callID), version: 1, record: .call(written)))
    }

    @Test(arguments: StoreKind.allCases)
    func aLoadAnswersInTheOrderOfTheQuestion(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.write(call("c"))
        let ids = ["c", "b", "a", "c"].map { CallID($0)! }
        #expect(try test.store.load(ids).map { $0?.id.callID } == [ids[0], nil, ids[2], ids[0]])
        #expect(try test.store.read([]).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitOverTheLoadedVersionReplacesTheRecord(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a", media: "voice"))
        #expect(try test.write(call("a", media: "video"), over: 1) == .committed(version: 2))
        #expect(try test.load("a")?.record == .call(call("a", media: "video")))
        #expect(try test.load("a")?.version == 2)
    }

    @Test(arguments: StoreKind.allCases, [Int64(0), 1, 3])
    func aCommitOverAnotherVersionIsAConflictAndChangesNothing(kind: StoreKind, expected: Int64) throws {
        let test = try kind.open()
        try test.write(call("a"))
        try test.write(call("a", media: "voice"), over: 1)
        let outcome = try test.write(call("a", [alice, carol], media: "video"), over: expected, deadline: 1) {
            $0.claims = [.activeCall(of: alice)]
            $0.notes = [.heard(CallID("a")!, UserHeard(userID: alice, at: 5))]
        }
        #expect(outcome == .conflict)
        #expect(
            try test.load("a")
                == StoredRecord(.call(CallID("a")!), version: 2, record: .call(call("a", media: "voice"))))
        #expect(try test.due(before: .max).isEmpty)
        // With Redis, claims and index entries are written in steps of their own before the commit: a reader of such an
        // entry looks at the call that the entry names.
        guard !kind.isRedis else { return }
        #expect(try test.holder(.activeCall(of: alice)) == nil)
        #expect(try test.calls(carol).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitOverARecordThatDoesNotExistIsAConflict(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.write(call("a"), over: 1) == .conflict)
        #expect(try test.load("a") == nil)
    }

    @Test(arguments: StoreKind.allCases)
    func ofTwoWritersOfOneVersionOneWins(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("a"))
        let commits = ["voice", "video"].map { media in
            Commit(
                .call(CallID("a")!), record: .call(call("a", media: media)), expected: 1, deadline: nil,
                expiresAt: nil)
        }
        #expect(try test.store.commit(commits) == [.committed(version: 2), .conflict])
        #expect(try test.load("a")?.record == .call(call("a", media: "voice")))
    }

    @Test(arguments: StoreKind.allCases)
    func theCommitsOfABatchDoNotDependOnEachOther(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("b"))
        let commits = ["a", "b", "c"].map {
            Commit(.call(CallID($0)!), record: .call(call($0)), expected: 0, deadline: nil, expiresAt: nil)
        }
        #expect(try test.store.commit(commits) == [.committed(version: 1), .conflict, .committed(version: 1)])
        #expect(try test.load("a") != nil)
        #expect(try test.load("c") != nil)
    }

    @Test(arguments: StoreKind.allCases)
    func everyKindOfRecordIsKept(kind: StoreKind) throws {
        let test = try kind.open()
        let id = CallID("a")!
        let cancelled = Record.cancelled(by: alice, at: 77)
        let alias = Record.alias(of: CallID("b")!, origin: call("a").origin)
        for (version, record) in [cancelled, alias, .call(call("a"))].enumerated() {
            let commit = Commit(.call(id), record: record, expected: Int64(version), deadline: nil, expiresAt: nil)
            #expect(try test.store.commit([commit]) == [.committed(version: Int64(version) + 1)])
            #expect(try test.load("a")?.record == record)
        }
    }

    // Claims

    @Test(arguments: StoreKind.allCases)
    func aClaimIsHeldByTheCallThatTookItUntilItIsReleased(kind: StoreKind) throws {
        let test = try kind.open()
        let claims: [Claim] = [.activeCall(of: alice), .ringing(from: alice, to: bob)]
        #expect(try test.store.holders(of: claims) == [nil, nil])
        try test.write(call("a")) { $0.claims = claims }
        #expect(try test.store.holders(of: claims).map { $0?.callID } == [CallID("a"), CallID("a")])
        try test.write(call("a"), over: 1) { $0.releases = [claims[0]] }
        #expect(try test.store.holders(of: claims).map { $0?.callID } == [nil, CallID("a")])
    }

    /// More claims than a script gives up, and the claim of another call among them.
    @Test(arguments: StoreKind.allCases)
    func manyClaimsAreReleasedAtOnce(kind: StoreKind) throws {
        let test = try kind.open()
        let users = (0..<300).map { UserID("u\($0)")! }
        let calls = users.map { call($0.string) }
        _ = try test.store.commit(
            zip(users, calls).map { user, call in
                var commit = Commit(.call(call.callID), record: .call(call), expected: 0, deadline: nil, expiresAt: nil)
                commit.claims = [.activeCall(of: user)]
                return commit
            })
        try test.write(call("other")) { $0.claims = [.activeCall(of: users[150])] }
        _ = try test.store.commit(
            zip(users, calls).map { user, call in
                var commit = Commit(.call(call.callID), record: .call(call), expected: 1, deadline: nil, expiresAt: nil)
                commit.releases = [.activeCall(of: user)]
                return commit
            })
        let holders = try test.store.holders(of: users.map(Claim.activeCall))
        #expect(holders.compactMap { $0?.callID.string } == ["other"])
    }

    @Test(arguments: StoreKind.allCases)
    func aClaimOfAnotherCallIsNotReleased(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.activeCall(of: alice)
        try test.write(call("a")) { $0.claims = [claim] }
        try test.write(call("b")) { $0.releases = [claim] }
        #expect(try test.holder(claim) == "a")
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitFailsWhenAClaimIsHeldByAnotherCallThanExpected(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.activeCall(of: alice)
        try test.write(call("a")) { $0.claims = [claim] }
        let outcome = try test.write(call("b")) {
            $0.expectedHolders = [(claim, nil)]
            $0.claims = [claim]
        }
        #expect(outcome == .claimHeld)
        #expect(try test.load("b") == nil)
        #expect(try test.holder(claim) == "a")
    }

    /// The coordinator that decided the commit stood still since: by now other coordinators may have gone past the
    /// commit's time.
    @Test(arguments: StoreKind.allCases)
    func aCommitIsRefusedAfterItsTime(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        #expect(try test.write(call("late")) { $0.validity = now - 9_000...now - 1_000 } == .stale)
        #expect(try test.load("late") == nil)
        #expect(try test.write(call("c")) { $0.validity = now - 1_000...now + 60_000 } == .committed(version: 1))
        #expect(try test.write(call("c"), over: 1) { $0.validity = now - 9_000...now - 1_000 } == .stale)
        #expect(try test.load("c")?.version == 1)
    }

    /// The clock of the coordinator that decided the commit is ahead of the store's clock.
    @Test(arguments: StoreKind.allCases)
    func aCommitIsRefusedBeforeItsTime(kind: StoreKind) throws {
        let test = try kind.open()
        let now = try test.store.now()
        #expect(try test.write(call("early")) { $0.validity = now + 30_000...now + 90_000 } == .stale)
        #expect(try test.load("early") == nil)
    }

    /// No request waits for the release of a claim: a release must not take a claim that the same call has taken since.
    @Test func aClaimThatWasTakenAgainIsNotGivenUpByALateRelease() throws {
        let server = try RedisServer.shared.get()
        let prefix = "test-\(UUID().uuidString)"
        let test = StoreUnderTest(RedisCallStore(address: server.address, prefix: prefix)) { _ in }
        let claim = Claim.activeCall(of: alice)
        try test.write(call("a")) { $0.claims = [claim] }
        // The next commit takes the claim again, before the release of an earlier commit arrives.
        try test.write(call("a"), over: 1) { $0.claims = [claim] }
        try server.release(claim, prefix: prefix, callID: "a", version: 0)
        #expect(try test.holder(claim) == "a")
        try server.release(claim, prefix: prefix, callID: "a", version: 1)
        #expect(try test.holder(claim) == nil)
    }

    @Test(arguments: StoreKind.allCases)
    func aCommitFailsWhenAnExpectedHolderGaveTheClaimUp(kind: StoreKind) throws {
        let test = try kind.open()
        let outcome = try test.write(call("b")) {
            $0.expectedHolders = [(.activeCall(of: alice), ClaimHolder(CallID("a")!, version: 0))]
        }
        #expect(outcome == .claimHeld)
    }

    @Test(arguments: StoreKind.allCases)
    func aStaleHolderIsReplacedByWhoeverExpectsIt(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.ringing(from: alice, to: bob)
        try test.write(call("a")) { $0.claims = [claim] }
        let holder = try test.store.holders(of: [claim])[0]
        let outcome = try test.write(call("b")) {
            $0.expectedHolders = [(claim, holder)]
            $0.claims = [claim]
        }
        #expect(outcome == .committed(version: 1))
        #expect(try test.holder(claim) == "b")
        try test.write(call("a"), over: 1) { $0.releases = [claim] }
        #expect(try test.holder(claim) == "b", "the former holder cannot give it up")
    }

    @Test(arguments: StoreKind.allCases)
    func aCallTakesItsOwnClaimAgain(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.activeCall(of: alice)
        try test.write(call("a")) { $0.claims = [claim] }
        let holder = try test.store.holders(of: [claim])[0]
        let outcome = try test.write(call("a"), over: 1) {
            $0.expectedHolders = [(claim, holder)]
            $0.claims = [claim]
        }
        #expect(outcome == .committed(version: 2))
    }

    /// Where a claim is taken before the commit, a commit that fails leaves the claim behind. A coordinator that wants
    /// the claim raises that call's version, and then expects the claim as it saw the claim: if the call has taken the
    /// claim again meanwhile, for a commit that counts, the call is another holder.
    @Test(arguments: StoreKind.allCases)
    func aHolderThatTookItsClaimAgainIsAnotherOne(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.activeCall(of: alice)
        for id in ["a", "b"] { try test.write(call(id)) }
        // The call was fenced: a store that takes the claim first has taken it, and the commit fails.
        try test.write(call("a"), over: 1)
        #expect(try test.write(call("a"), over: 1) { $0.claims = [claim] } == .conflict)
        let seen = try test.store.holders(of: [claim])[0]
        func take(_ id: String, over version: Int64) throws -> CommitOutcome {
            try test.write(call(id), over: version) {
                $0.expectedHolders = [(claim, seen)]
                $0.claims = [claim]
            }
        }
        #expect(try take("a", over: 2) == .committed(version: 3))
        #expect(try take("b", over: 1) == .claimHeld)
    }

    @Test(arguments: StoreKind.allCases)
    func ofTwoCallsInOneBatchThatWantOneClaimTheFirstGetsIt(kind: StoreKind) throws {
        let test = try kind.open()
        let claim = Claim.activeCall(of: alice)
        let commits = ["a", "b"].map { id in
            var commit = Commit(.call(CallID(id)!), record: .call(call(id)), expected: 0, deadline: nil, expiresAt: nil)
            commit.expectedHolders = [(claim, nil)]
            commit.claims = [claim]
            return commit
        }
        #expect(try test.store.commit(commits) == [.committed(version: 1), .claimHeld])
        #expect(try test.holder(claim) == "a")
    }

    @Test(arguments: StoreKind.allCases)
    func claimsOfDifferentUsersAreDifferentWhateverTheirNames(kind: StoreKind) throws {
        let test = try kind.open()
        let names = ["a", "a:b", "b:c", "c", ":", "a:", ":c", "1:a", "1"].map { UserID($0)! }
        var claims = names.map { Claim.activeCall(of: $0) }
        for from in names { claims += names.map { .ringing(from: from, to: $0) } }
        for (number, claim) in claims.enumerated() { try test.write(call("c\(number)")) { $0.claims = [claim] } }
        #expect(try test.store.holders(of: claims).map { $0?.callID.string } == claims.indices.map { "c\($0)" })
    }
}
