/// A clock in milliseconds that cannot be set and that runs while the machine sleeps.
struct MonotonicClock: Sendable {
    private let start = ContinuousClock.now

    var now: Int64 { (ContinuousClock.now - start).milliseconds }

    /// Returns at `time`, or earlier when the task is cancelled.
    func sleep(until time: Int64) async {
        try? await Task.sleep(until: start + .milliseconds(time), clock: .continuous)
    }
}

extension Duration {
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
