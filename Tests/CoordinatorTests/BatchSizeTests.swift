import Testing

@testable import Coordinator

/// The results of a batch must be told before they are stale, however slow the store is.
struct BatchSizeTests {
    /// Returns the sizes of `count` batches at a store that needs `cost` milliseconds for each message, one after
    /// another.
    private func slices(_ count: Int, cost: Int64, _ size: inout BatchSize) -> [Int] {
        (0..<count).map { _ in
            let slice = size.current
            size.took(Int64(slice) * cost)
            return slice
        }
    }

    @Test func aSlowStoreMakesSlicesThatAreToldInTime() {
        var size = BatchSize(largest: 64)
        #expect(slices(3, cost: 40, &size) == [64, 3, 11])
        #expect(slices(20, cost: 40, &size).allSatisfy { Int64($0) * 40 < 500 })
    }

    @Test func itNeverStopsAndNeverGrowsBeyondTheLargest() {
        var size = BatchSize(largest: 64)
        _ = slices(20, cost: 5_000, &size)
        #expect(size.current == 1)
        _ = slices(10, cost: 0, &size)
        #expect(size.current == 64)
    }

    @Test(arguments: [0, 1, 4] as [Int64])
    func withAStoreThatKeepsUpItStaysLarge(_ cost: Int64) {
        var size = BatchSize(largest: 64)
        #expect(slices(50, cost: cost, &size).allSatisfy { $0 == 64 })
    }
}
