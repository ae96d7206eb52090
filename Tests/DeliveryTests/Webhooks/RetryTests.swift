import CallCore
import Testing

@testable import Delivery

@Suite struct RetryTests {
    @Test func theDelayDoublesUpToTenMinutes() {
        let delays = (1...13).map { RetryDelay.delay(afterAttempts: $0) / 1000 }
        #expect(delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600])
        #expect(RetryDelay.delay(afterAttempts: .max) == 600_000)
        #expect(RetryDelay.delay(afterAttempts: 0) == 1_000)
    }

    @Test func anEndpointMayAskForMoreThanTheDelayAndForAnHourAtMost() {
        #expect(RetryDelay.delay(afterAttempts: 1, asked: 30_000) == 30_000)
        #expect(RetryDelay.delay(afterAttempts: 8, asked: 30_000) == 128_000)
        #expect(RetryDelay.delay(afterAttempts: 1, asked: 0) == 1_000)
        #expect(RetryDelay.delay(afterAttempts: 1, asked: .max) == 3_600_000)
    }

    @Test func attemptsEndWithRetryFor() {
        var attempts: [Milliseconds] = [0]
        while let next = RetryDelay.next(
            afterAttempts: attempts.count, first: start, now: start + attempts[attempts.count - 1], retryFor: 10)
        {
            attempts.append(next - start)
        }
        #expect(attempts == [0, 1_000, 3_000, 7_000, 10_000])
        #expect(RetryDelay.next(afterAttempts: 1, first: start, now: start, retryFor: 0) == nil)
        #expect(RetryDelay.next(afterAttempts: 1, first: start, now: start + 99_000, retryFor: 10) == nil)
    }

    @Test func whatIsAskedForIsNeverCutShort() {
        func next(asked: Milliseconds) -> Milliseconds? {
            RetryDelay.next(afterAttempts: 1, first: 0, now: 0, retryFor: 10, asked: asked)
        }
        #expect(next(asked: 9_000) == 9_000)
        #expect(next(asked: 10_000) == 10_000)
        #expect(next(asked: 10_001) == nil)
    }

    @Test(arguments: [200, 202, 204, 299])
    func anySuccessIsTaken(_ status: Int) { #expect(WebhookVerdict(status: status) == .taken) }

    @Test(arguments: [nil, 0, 100, 199, 300, 301, 308, 400, 401, 404, 409, 411, 429, 500, 503, 999])
    func anythingElseIsTriedAgain(_ status: Int?) { #expect(WebhookVerdict(status: status) == .again) }

    @Test func onlyGoneTurnsAnEndpointOff() { #expect(WebhookVerdict(status: 410) == .gone) }
}
