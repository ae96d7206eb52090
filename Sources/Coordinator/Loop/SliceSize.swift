/// How much is served in one go: less while the store is slow.
///
/// What a slice has done is told when all of it is done, and dropped when that took too long, since by then others may
/// have gone on. With a fixed size a slow store and many messages would mean that every slice is too late, that every
/// device sends again, and that nobody is ever told anything.
package struct SliceSize: Sendable {
    /// Milliseconds: beyond this a slice is near to being dropped (`Coordinator`: 500 ms after it was begun).
    private static let tooLong: Int64 = 300
    /// Milliseconds: how long the next slice should take after one that was too long.
    private static let aim: Int64 = 150
    private static let step = 8

    private let largest: Int
    package private(set) var current: Int

    package init(largest: Int) {
        self.largest = largest
        current = largest
    }

    /// A slice of the current size, or a smaller one, took so many milliseconds.
    package mutating func took(_ duration: Int64) {
        if duration > Self.tooLong {
            // No smaller than it must be: what is served together costs less.
            current = max(1, Int(Int64(current) * Self.aim / duration))
        } else if duration < Self.aim {
            // Slowly, since the next messages may cost more than these: a slice that is too long tells nothing at all.
            current = min(largest, current + Self.step)
        }
    }
}
