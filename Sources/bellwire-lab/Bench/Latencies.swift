/// Latencies in microseconds, for percentiles.
struct Latencies {
    private var values: [Int32] = []

    mutating func add(_ microseconds: Int64) { values.append(Int32(clamping: microseconds)) }

    mutating func removeAll() { values.removeAll(keepingCapacity: true) }

    var count: Int { values.count }

    /// Returns a percentile in milliseconds; 0 without latencies.
    func percentile(_ share: Double) -> Double {
        guard !values.isEmpty else { return 0 }
        let sorted = values.sorted()
        return Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]) / 1000
    }
}
