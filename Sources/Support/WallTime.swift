/// A moment by this machine's wall clock: what a stranger's clock is held against (docs/decisions/0024).
///
/// It is a type of its own so that the store's time, which nobody can set and which may therefore be hours from everybody else's, is never
/// written where another clock is compared with it.
package struct WallTime: Equatable, Comparable, Sendable {
    /// Since the Unix epoch.
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static var now: WallTime { WallTime(milliseconds: SystemClock.wall.milliseconds) }

    /// Since the Unix epoch, as signatures and tokens have it.
    package var seconds: Int64 { milliseconds / 1_000 }

    package static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.milliseconds < rhs.milliseconds }

    /// Milliseconds from one moment to the other.
    package static func - (lhs: WallTime, rhs: WallTime) -> Int64 { lhs.milliseconds - rhs.milliseconds }

    package static func + (time: WallTime, milliseconds: Int64) -> WallTime {
        WallTime(milliseconds: time.milliseconds + milliseconds)
    }
}
