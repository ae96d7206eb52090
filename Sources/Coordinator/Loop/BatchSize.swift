/// The number of requests that are served together: fewer while the store is slow.
///
/// The messages of a batch are published when the whole batch is done, and dropped when that took too long, since other
/// coordinators may have gone on by then. With a fixed size, a slow store and many messages would make every batch too
/// late: every device would send again, and no device would ever get a response.
package struct BatchSize: Sendable {
    /// The time after which a batch is close to being dropped, in milliseconds (`Coordinator` drops a batch 500 ms
    /// after its begin).
    private static let tooLong: Int64 = 300
    /// The time that the next batch should take after a batch that took too long, in milliseconds.
    private static let aim: Int64 = 150
    private static let step = 8

    private let largest: Int
    package private(set) var current: Int

    package init(largest: Int) {
        self.largest = largest
        current = largest
    }

    /// Notes that a batch of the current size, or a smaller batch, took `duration` milliseconds.
    package mutating func took(_ duration: Int64) {
        if duration > Self.tooLong {
            // The size shrinks no further than needed, since requests cost less when they are served together.
            current = max(1, Int(Int64(current) * Self.aim / duration))
        } else if duration < Self.aim {
            // The size grows slowly, since the next messages may cost more: a batch that takes too long publishes no
            // message at all.
            current = min(largest, current + Self.step)
        }
    }
}
