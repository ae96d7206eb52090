import CallCore
import Testing

/// How much of a full outbox each user gives up.
struct OutboxSharesTests {
    @Test(
        arguments: [
            ([100], 30, 70), ([100, 10], 30, 70), ([100, 90], 30, 80), ([100, 90, 80, 5], 30, 80),
            ([100, 90, 80, 5], 60, 70),
            ([10, 10, 10], 30, 0), ([10], 30, 0), ([], 5, 0), ([7, 7], 1, 6),
        ] as [([Int], Int, Int)])
    func thoseWithTheMostComeDownToOneLevel(_ bytes: [Int], _ excess: Int, _ level: Int) {
        #expect(OutboxShares.level(bytes, excess: excess) == level)
        let freed = bytes.reduce(0) { $0 + max(0, $1 - level) }
        #expect(freed >= min(excess, bytes.reduce(0, +)))
    }

    @Test func nobodyIsBelowAShareAtThatLevel() {
        for seed in 1...200 {
            let bytes = (1...9).map { ($0 * $0 * seed * 7_919) % 1_000 }
            let sum = bytes.reduce(0, +)
            let excess = sum * (seed % 7) / 7
            #expect(OutboxShares.level(bytes, excess: excess) >= OutboxShares.share(of: sum - excess, among: 9) - 1)
        }
    }
}
