import SignalingProtocol
import Testing

@testable import Gateway

/// How much a user may ask of a gateway.
@Suite struct UserBudgetsTests {
    private let budgets = UserBudgets()
    private let alice = UserID("alice")!

    @Test func aUserMayAskOftenAtOnceAndThenAtARate() throws {
        for _ in 0..<UserBudgetBounds.burst { try budgets.take(alice, now: 1) }
        let refusal = #expect(throws: Problem.self) { try budgets.take(alice, now: 1) }
        #expect(refusal?.status == 429 && refusal?.error.retryAfter == 51)
        #expect(throws: Problem.self) { try budgets.take(alice, now: 49_999) }
        try budgets.take(alice, now: 50_001)
        #expect(throws: Problem.self) { try budgets.take(alice, now: 50_002) }
    }

    @Test func nobodyTakesFromAnother() throws {
        for _ in 0..<UserBudgetBounds.burst { try budgets.take(alice, now: 1) }
        try budgets.take(UserID("bob")!, now: 1)
    }

    @Test func whoHasRestedIsForgotten() throws {
        for number in 0..<UserBudgetBounds.users { try budgets.take(UserID("user\(number)")!, now: 1) }
        #expect(budgets.count == UserBudgetBounds.users)
        try budgets.take(alice, now: 1_000_000)
        #expect(budgets.count == 1)
    }
}
