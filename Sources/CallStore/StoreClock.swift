import CallCore
import Glibc
import SignalingProtocol
import Support

/// The clocks of this machine, in milliseconds.
package struct MachineClock: Sendable {
    /// The time since the machine's start. This clock cannot be set and also runs while a process is frozen or the
    /// machine sleeps.
    package var boot: @Sendable () -> Milliseconds
    /// The time since the Unix epoch. Any user with the rights can set this clock.
    package var wall: @Sendable () -> Milliseconds
    /// An identifier of this start of the machine. Within one start, all processes share `boot`.
    package var bootID: String

    package static let system = MachineClock(
        boot: { SystemClock.boot.milliseconds }, wall: { SystemClock.wall.milliseconds }, bootID: readBootID())

    /// Returns both clocks at the same moment: if the process stood still between the two readings, both are read
    /// again.
    package func atOnce() -> (boot: Milliseconds, wall: Milliseconds) {
        var before = boot()
        for _ in 0..<Self.attempts {
            let wall = wall()
            let after = boot()
            if after - before <= Self.moment { return (before, wall) }
            before = after
        }
        return (before, wall())
    }

    private static let attempts = 10
    private static let moment: Milliseconds = 10

    private static func readBootID() -> String {
        guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count).filter { $0 > UInt8(ascii: " ") }, as: UTF8.self)
    }

    package init(
        boot: @escaping @Sendable () -> Milliseconds, wall: @escaping @Sendable () -> Milliseconds, bootID: String
    ) {
        self.boot = boot
        self.wall = wall
        self.bootID = bootID
    }
}

/// Bounds that tell a set clock from a drifting clock.
package enum ClockBounds {
    /// The largest difference, in milliseconds, of a clock that was not set: more than any drift, and more than the
    /// longest wait for an answer.
    package static let step: Milliseconds = 1_000
    /// The divisor for following a set clock: 1 ms for each so many milliseconds, so that no minute of ringing is
    /// longer by a tenth of a second.
    package static let slew: Milliseconds = 1_000
    /// The longest correction, in milliseconds, at one reading of the clock.
    package static let longestSlew: Milliseconds = 60
    /// The interval, in milliseconds, after which the next process that reads the clock writes the time to the store.
    /// The interval is short enough to show a starting process that others are running, and long enough for a disk that
    /// is written each time.
    package static let telling: Milliseconds = 400
}

/// A process's estimate of the store's time: the boot clock plus an offset.
package struct StoreClock: Sendable {
    private var offset: Milliseconds?
    /// Whether the store has answered with a time that drift does not explain. The store's clock must then be looked at
    /// before its time is used again.
    package private(set) var isDoubtful = false

    package init() {}

    package func now(boot: Milliseconds) -> Milliseconds? { offset.map { boot + $0 } }

    /// Returns the time of this clock at the moment between `before` and `after`, by the boot clock, at which this
    /// clock was nearest to `time`. A process that is stopped during a query thus does not take its own pause for a set
    /// clock. Returns nil while this clock has no offset.
    package func now(
        nearest time: Milliseconds, between before: Milliseconds, _ after: Milliseconds
    ) -> Milliseconds? {
        offset.map { min(max(time, before + $0), after + $0) }
    }

    /// Learns that the store's time was `time` at some moment between `before` and `after` by the boot clock.
    package mutating func learn(_ time: Milliseconds, between before: Milliseconds, _ after: Milliseconds) {
        guard let known = offset else { return adopt(time, between: before, after) }
        // With two open queries, `before` and `after` may be far apart, and their middle is then a poor estimate. The
        // known offset therefore stays as long as it is possible.
        let likely = min(max(known, time - max(before, after)), time - min(before, after))
        if abs(likely - known) > ClockBounds.step { isDoubtful = true } else { offset = likely }
    }

    /// Learns a time that was checked, as `learn` does, but regardless of the previous offset. `before` and `after` are
    /// at most `ClockBounds.step` apart; with a longer interval, the time would be too imprecise.
    package mutating func adopt(_ time: Milliseconds, between before: Milliseconds, _ after: Milliseconds) {
        let likely = time - (before + after) / 2
        if let known = offset, abs(likely - known) <= ClockBounds.step {
            offset = min(max(known, time - max(before, after)), time - min(before, after))
        } else {
            offset = likely
        }
        isDoubtful = false
    }
}

/// The correction that coordinators add to the clock of the store's machine, since that clock may be set. All
/// coordinators of a store agree on the correction.
///
/// A set clock must neither end the ringing of a call early nor prolong the ringing. The time for serving calls
/// therefore continues by the coordinators' own clocks, and follows the set clock at the rate of `ClockBounds.slew`.
package struct SharedClock: Equatable, Sendable {
    /// The time on which all coordinators agree, minus the time of the store's machine.
    package private(set) var correction: Milliseconds = 0
    /// The agreed time at the last reading by any process.
    package private(set) var last: Milliseconds = 0
    /// The wall clock of the process that read the clock last, minus the agreed time.
    package private(set) var skew: Milliseconds = 0
    /// The number of times that the clock was found to be set. `lastStep` is the last difference, in milliseconds.
    package private(set) var steps: Int64 = 0
    package private(set) var lastStep: Milliseconds = 0

    package init() {}

    /// Handles a process's reading of the clock. `raw` is the time of the store's machine. `expected` is the time by
    /// the process's own clock, nil for a process that has just started. `wall` is the process's wall clock. Returns
    /// the agreed time.
    package mutating func look(raw: Milliseconds, expected: Milliseconds?, wall: Milliseconds) -> Milliseconds {
        var now = raw + correction
        let likely = expected ?? likely(raw: now, wall: wall)
        // A process that expects an earlier time than other processes have seen was frozen: the store's clock is then
        // right.
        if abs(likely - now) > ClockBounds.step, likely + ClockBounds.step >= last {
            step(by: likely - now, &now)
        } else if now + ClockBounds.step < last {
            step(by: last - now, &now)
        }
        if last > 0 { slew(&now) }
        last = max(last, now)
        skew = wall - now
        return now
    }

    /// Returns the likely time for a process that has just started. Such a process knows two clocks, and both may have
    /// been set while no process ran. A clock that went back is wrong. When the clocks differ, the clock that shows
    /// less time counts: a call then rings on for a while, and no call ends too early.
    private func likely(raw now: Milliseconds, wall: Milliseconds) -> Milliseconds {
        guard last > 0 else { return now }
        return [now, wall - skew].filter { $0 >= last }.min() ?? last
    }

    private mutating func step(by difference: Milliseconds, _ now: inout Milliseconds) {
        now += difference
        correction += difference
        steps += 1
        lastStep = -difference
    }

    private mutating func slew(_ now: inout Milliseconds) {
        // The step follows from the clock and not from the time between two readings, because many readings may fall
        // into a second.
        let most = min(max(now / ClockBounds.slew - last / ClockBounds.slew, 0), ClockBounds.longestSlew)
        let change = min(max(-correction, -most), most)
        correction += change
        now += change
    }

    /// Whether the new state must be written for other processes: the clock was set, or the last write of the time is
    /// `ClockBounds.telling` ago.
    package func isNews(since known: SharedClock) -> Bool {
        steps != known.steps || last >= known.last + ClockBounds.telling
    }

    // MARK: The stored text

    package var text: String { "\(correction):\(last):\(skew):\(steps):\(lastStep)" }

    /// Returns nil when `text` is not the stored text of a shared clock.
    package init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map { Milliseconds($0) }
        guard parts.count == 5, let correction = parts[0], let last = parts[1], let skew = parts[2],
            let steps = parts[3], let lastStep = parts[4], StoredNumber.times.contains(last),
            StoredNumber.counts.contains(steps), StoredNumber.differences.contains(correction),
            StoredNumber.differences.contains(skew)
        else { return nil }
        self.skew = skew
        self.correction = correction
        self.last = last
        self.steps = steps
        self.lastStep = lastStep
    }
}
