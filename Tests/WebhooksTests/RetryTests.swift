import CallCore
import Testing

@testable import Webhooks

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

    /// 1994-11-06, 08:49:37, of which RFC 9110 makes its examples.
    private static let example: Milliseconds = 784_111_777_000

    @Test(
        arguments: [
            ("0", 0), ("120", 120_000), ("00030", 30_000), ("3601", 3_600_000),
            ("99999999999999999999999", 3_600_000), ("Sun, 06 Nov 1994 08:49:37 GMT", 60_000),
            ("Sun Nov  6 08:49:37 1994", 60_000), ("Sun, 06 Nov 1994 08:40:00 GMT", 0),
            ("Mon, 07 Nov 1994 08:49:37 GMT", 3_600_000),
        ] as [(String, Milliseconds)])
    func retryAfterIsSecondsOrADate(_ value: String, _ expected: Milliseconds) {
        #expect(RetryAfter.milliseconds(value, now: Self.example - 60_000) == expected)
    }

    @Test func aYearOfTwoDigitsIsOfThisCentury() {
        // 2026-09-21, 14:13:20.
        #expect(RetryAfter.milliseconds("Monday, 21-Sep-26 14:13:20 GMT", now: 1_789_999_990_000) == 10_000)
    }

    @Test(arguments: [
        "", "-1", "+1", "1.5", "soon", "１２", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 08:49:37 GMT GMT", "a b c d e",
        "Sun, 06 Nov 99999999999 1:1:1 GMT",
    ])
    func whatIsNeitherAsksForNothing(_ value: String) { #expect(RetryAfter.milliseconds(value, now: 0) == nil) }

    @Test(arguments: [200, 202, 204, 299])
    func anySuccessIsTaken(_ status: Int) { #expect(Verdict(status: status) == .taken) }

    @Test(arguments: [nil, 0, 100, 199, 300, 301, 308, 400, 401, 404, 409, 411, 429, 500, 503, 999])
    func anythingElseIsTriedAgain(_ status: Int?) { #expect(Verdict(status: status) == .again) }

    @Test func onlyGoneTurnsAnEndpointOff() { #expect(Verdict(status: 410) == .gone) }
}
