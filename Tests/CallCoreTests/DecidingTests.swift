import SignalingProtocol
import Testing

@testable import CallCore

/// Decisions without a store and without a coordinator: requests, a record and facts go in, and a decision comes out
/// (docs/decisions/0016).
struct DecidingTests {
    /// Limits that allow all requests.
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

    /// Returns all facts that an invitation needs.
    private func facts() -> Facts {
        var facts = Facts()
        facts.now = 1_000
        for user in [alice.userID, bob.userID] {
            let quotas = [Query].quotas(of: user, settings, now: 1_000)
            let queries = [.devices(user), .profile(user), .holder(.activeCall(of: user))] + quotas
            for query in queries { facts.learn(query, answer(query)) }
        }
        for block in [Block(by: bob.userID, of: alice.userID), Block(by: alice.userID, of: bob.userID)] {
            facts.learn(.block(block), .block(false))
        }
        return facts
    }

    /// The answer of an empty store.
    private func answer(_ query: Query) -> QueryAnswer {
        switch query {
        case .record: .record(nil)
        case .devices: .devices([])
        case .holder: .holder(nil)
        case .profile: .profile(nil)
        case .block: .block(false)
        case .calls: .calls([])
        case .messages: .messages([])
        case .outstanding: .outstanding(OutstandingNumber())
        case .storedBytes(let periods): .storedBytes(periods.numbers.map { _ in 0 })
        case .registration: .registration(false)
        }
    }

    private func decide(
        _ events: [CallEvent], _ stored: StoredRecord? = nil, _ facts: Facts, id: CallID = CallID("c")!
    ) throws -> Decision {
        let deciding = Deciding(facts, settings, Plenty())
        return try deciding.decide(CallWork(id: id, events: events), stored)
    }

    /// Returns the queries that a decision asks, one after another, until it is made.
    private func asked(_ events: [CallEvent]) throws -> [Query] {
        var known = Facts()
        known.now = 1_000
        var asked: [Query] = []
        while true {
            do throws(Undecided) {
                _ = try Deciding(known, settings, Plenty()).decide(CallWork(id: callID, events: events), nil)
                return asked
            } catch {
                guard case .needs(let queries) = error else { throw error }
                asked += queries
                try #require(asked.count < 20)
                for query in queries { known.learn(query, answer(query)) }
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
        let (first, second) = (alice.userID, bob.userID)
        let asked = try asked([invite()])
        let others: [Query] = [
            .block(Block(by: second, of: first)), .devices(second), .profile(first), .profile(second),
            .holder(.activeCall(of: first)),
        ]
        #expect(asked.count == Set(asked).count)
        #expect(Set(asked) == Set(others + [Query].quotas(of: first, settings, now: 1_000)))
        #expect(try self.asked([request(bob, "a", .accept(.init(callID: callID)))]).isEmpty, "there is no such call")
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

    /// The accept under the alias belongs to the call to which the alias leads. If the call were made anew under the
    /// alias, that accept would be lost.
    @Test func whatIsMadeAnewUnderAnAliasLosesNoAnswerOfBefore() throws {
        let other = CallID("other")!
        let invitation = request(bob, "o", .invite(.init(invitees: [alice.userID], callID: other)))
        let made = try decide([invitation], nil, facts(), id: other).call
        let origin = RequestKey(device: alice, requestID: RequestID("i")!)
        let alias = StoredRecord(.call(callID), version: 3, record: .alias(of: other, origin: origin))
        var facts = facts()
        facts.learn(target: other, StoredRecord(.call(other), version: 1, record: .call(try #require(made))))
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
