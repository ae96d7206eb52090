import SignalingProtocol
import Testing

@testable import CallCore

/// Given this, what is decided? No store, no coordinator: a work, a record and facts in, a value out (docs/decisions/0016).
struct DecidingTests {
    /// Everything may be taken.
    private final class Plenty: Allowances {
        func wait(for key: RateLimiter.Key, besides reserved: Int, now: Milliseconds) -> Int? { nil }
        func wait(forBytesOf user: UserID, now: Milliseconds) -> Int? { nil }
        func refusal(
            of bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds
        ) -> (limit: RateLimiter.Key, retryAfter: Int)? { nil }
        func mayResend(_ candidate: ResendPacing.Candidate, to target: ResendPacing.Target, now: Milliseconds) -> Bool {
            true
        }
        func mayAnswer(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) -> Bool { true }
    }

    private let callID = CallID("c")!
    private let alice = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
    private let bob = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
    private let settings = ServiceSettings()

    private func request(_ device: DeviceAddress, _ id: String, _ body: Request.Body) -> CallEvent {
        .request(ReceivedRequest(device: device, request: Request(id: RequestID(id)!, body: body)))
    }

    private func invite(_ device: DeviceAddress = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!))
        -> CallEvent
    {
        let other = device == alice ? bob.userID : alice.userID
        return request(device, "i", .invite(.init(invitees: [other], callID: callID)))
    }

    /// All that inviting needs.
    private func facts() -> Facts {
        var facts = Facts()
        facts.now = 1_000
        for user in [alice.userID, bob.userID] {
            facts.presence[user] = []
            facts.profiles[user] = .some(nil)
            facts.liveInvitations[user] = OutstandingNumber()
            facts.storedBytes[user] = 0
            facts.holders[.activeCall(of: user)] = .some(nil)
        }
        facts.blocks[Block(by: bob.userID, of: alice.userID)] = false
        facts.blocks[Block(by: alice.userID, of: bob.userID)] = false
        return facts
    }

    private func decide(
        _ events: [CallEvent], _ stored: StoredRecord? = nil, _ facts: Facts, id: CallID = CallID("c")!
    ) throws -> Decision {
        let deciding = Deciding(facts, settings, Plenty())
        return try deciding.decide(CallWork(id: id, events: events), stored)
    }

    /// What is asked for one thing after the other, until it is decided.
    private func asked(_ events: [CallEvent]) throws -> [Lookup] {
        var known = Facts()
        known.now = 1_000
        let all = facts()
        var lookups: [Lookup] = []
        while true {
            do throws(Undecided) {
                _ = try Deciding(known, settings, Plenty()).decide(CallWork(id: callID, events: events), nil)
                return lookups
            } catch {
                guard case .needs(let lookup) = error else { throw error }
                lookups.append(lookup)
                try #require(lookups.count < 10)
                for user in lookup.presence { known.presence[user] = all.presence[user] }
                for user in lookup.profiles { known.profiles[user] = all.profiles[user] }
                for claim in lookup.claims { known.holders[claim] = .some(nil) }
                for block in lookup.blocks { known.blocks[block] = false }
                for count in lookup.outstanding { known.liveInvitations[count.user] = OutstandingNumber() }
                for stored in lookup.stored { known.storedBytes[stored.user] = 0 }
            }
        }
    }

    @Test func anInviteIsACallAnAnswerAndWhatItTakes() throws {
        let decision = try decide([invite()], nil, facts())
        let made = decision.call
        let call = try #require(made)
        #expect(call.state == .ringing && call.revision == 1 && call.inviter == alice.userID)
        #expect(decision.subject.version == 0 && decision.subject.before == nil)
        #expect(decision.replies.map(\.device) == [alice])
        #expect(decision.reserved.map(\.name).sorted() == ["callee", "pair"])
        #expect(decision.told == [alice.userID, bob.userID])
        #expect(decision.rings.map(\.invitees) == [[bob.userID]])
    }

    @Test func theSameIsDecidedOfTheSame() throws {
        let first = try decide([invite()], nil, facts())
        let second = try decide([invite()], nil, facts())
        #expect(first.call == second.call)
    }

    @Test func whatIsNotKnownIsAskedForAndNothingTwice() throws {
        let lookups = try asked([invite()])
        #expect(Set(lookups.flatMap(\.blocks)) == [Block(by: bob.userID, of: alice.userID)])
        #expect(lookups.flatMap(\.presence) == [bob.userID])
        #expect(lookups.flatMap(\.profiles).sorted { $0.string < $1.string } == [alice.userID, bob.userID])
        #expect(try asked([request(bob, "a", .accept(.init(callID: callID)))]).isEmpty, "there is no such call")
    }

    @Test func whatIsRefusedChangesAndTakesNothing() throws {
        let decision = try decide([request(bob, "a", .accept(.init(callID: callID)))], nil, facts())
        #expect(decision.call == nil && decision.reserved.isEmpty && decision.told.isEmpty)
        guard case .response(_, .failure(let error))? = decision.replies.first?.content else {
            Issue.record("no refusal")
            return
        }
        #expect(error.code == .callNotFound)
    }

    @Test func eventsAreJudgedInTheirOrder() throws {
        let accept = request(bob, "a", .accept(.init(callID: callID)))
        let cancel = request(alice, "x", .cancel(.init(callID: callID)))
        let first = try decide([invite(), accept, cancel], nil, facts())
        #expect(first.call?.endReason == .answered)
        let second = try decide([invite(), cancel, accept], nil, facts())
        #expect(second.call?.endReason == .cancelled)
    }

    /// What was answered under the alias is of the call to which it leads, and would be lost with a call that is made anew.
    @Test func whatIsMadeAnewUnderAnAliasLosesNoAnswerOfBefore() throws {
        let other = CallID("other")!
        let invitation = request(bob, "o", .invite(.init(invitees: [alice.userID], callID: other)))
        let made = try decide([invitation], nil, facts(), id: other).call
        let origin = RequestKey(device: alice, requestID: RequestID("i")!)
        let alias = StoredRecord(.call(callID), version: 3, record: .alias(of: other, origin: origin))
        var facts = facts()
        facts.targets[other] = .some(StoredRecord(.call(other), version: 1, record: .call(try #require(made))))
        let accept = request(alice, "a", .accept(.init(callID: callID)))
        let decision = try decide([accept, invite()], alias, facts)
        #expect(decision.call?.callID == other && decision.call?.endReason == .answered)
        guard case .response(_, .failure(let error))? = decision.replies.last?.content else {
            Issue.record("the second is not refused")
            return
        }
        #expect(error.code == .unavailable, "it comes again, and is judged by what is written")
        let alone = try decide([invite()], alias, facts)
        #expect(alone.call?.callID == callID)
    }
}
