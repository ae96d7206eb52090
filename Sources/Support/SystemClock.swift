import Glibc

/// The clocks of this machine. No other code reads the clocks.
package enum SystemClock: Sendable {
    /// The time since the machine's start. This clock cannot be set and also runs while a process is frozen or the
    /// machine sleeps. All countdowns and measurements use this clock.
    case boot
    /// The time since the Unix epoch. Any user with the rights can set this clock.
    case wall

    package var milliseconds: Int64 {
        let time = time
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    package var microseconds: Int64 {
        let time = time
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }

    private var time: timespec {
        var time = timespec()
        clock_gettime(self == .boot ? CLOCK_BOOTTIME : CLOCK_REALTIME, &time)
        return time
    }
}
