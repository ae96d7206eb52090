/// How much is served in one go: less while the store is slow.
///
/// What a slice has done is told when all of it is done, and dropped when that took too long, since by then others may
/// have gone on. With a fixed size a slow store and many messages would mean that every slice is too late, that every
/// device sends again, and that nobody is ever told anything.
package struct SliceSize: Sendable {
    /// Milliseconds: well below the age at which publications are dropped.
    private static let comfortable: ClosedRange<Int64> = 50...150

    private static let step = 4

    private let largest: Int
    package private(set) var current: Int

    package init(largest: Int) {
        self.largest = largest
        current = largest
    }

    /// A slice of the current size, or a smaller one, took so many milliseconds.
    package mutating func took(_ duration: Int64) {
        if duration > Self.comfortable.upperBound {
            current = max(1, current / 4)
        } else if duration < Self.comfortable.lowerBound {
            // Slowly, since the next messages may cost more than these: a slice that is too long tells nothing at all.
            current = min(largest, current + Self.step)
        }
    }
}
