import Testing

@testable import SignalingProtocol

@Suite struct BackoffTests {
    @Test func aWaitDoublesUpToTheLongest() {
        #expect((1...6).map(Backoff.resends.wait(after:)) == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000])
        #expect([-1, 0].map(Backoff.resends.wait(after:)) == [1_000, 1_000])
        let uneven = Backoff(first: 3_000, longest: 10_000)
        #expect((1...4).map(uneven.wait(after:)) == [3_000, 6_000, 10_000, 10_000])
    }

    @Test func manyAttemptsDoNotOverflow() {
        for attempts in [62, 63, 64, 65, .max] {
            #expect(Backoff.resends.wait(after: attempts) == 8_000)
            #expect(Backoff(first: .max, longest: .max).wait(after: attempts) == .max)
        }
        #expect(Backoff(first: 1, longest: .max).wait(after: 63) == 1 << 62)
    }

    @Test func theNextWaitIsShortenedByUpToAHalf() {
        var backoff = Backoff(first: 250, longest: 8_000)
        for round in 1...3 {
            for longest: Int64 in [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000] {
                let wait = backoff.next()
                #expect((longest / 2...longest).contains(wait), "round \(round)")
            }
            backoff.reset()
        }
    }
}
