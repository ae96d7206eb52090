/// A moment by this machine's wall clock, for comparison with clocks outside the deployment (docs/decisions/0024).
///
/// The store's time cannot be set and may therefore be hours from all other clocks. This separate type keeps the
/// store's time out of comparisons with other clocks.
package struct WallTime: Equatable, Comparable, Sendable {
    /// Milliseconds since the Unix epoch.
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static var now: WallTime { WallTime(milliseconds: SystemClock.wall.milliseconds) }

    /// Seconds since the Unix epoch, as in signatures and tokens.
    package var seconds: Int64 { milliseconds / 1_000 }

    package static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.milliseconds < rhs.milliseconds }

    /// Returns the milliseconds from `rhs` to `lhs`.
    package static func - (lhs: WallTime, rhs: WallTime) -> Int64 { lhs.milliseconds - rhs.milliseconds }

    package static func + (time: WallTime, milliseconds: Int64) -> WallTime {
        WallTime(milliseconds: time.milliseconds + milliseconds)
    }
}
