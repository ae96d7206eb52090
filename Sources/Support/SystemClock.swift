import Glibc

/// The clocks of this machine: the one place that reads them.
package enum SystemClock: Sendable {
    /// Since the machine's start. Nobody can set it, and it runs on while a process is frozen or the machine sleeps: all countdowns and
    /// measurements are by it.
    case boot
    /// Since the Unix epoch. Anybody with the rights can set it.
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
