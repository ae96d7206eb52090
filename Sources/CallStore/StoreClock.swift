import CallCore
import Glibc
import SignalingProtocol
import Support

/// The clocks of this machine, in milliseconds.
package struct MachineClock: Sendable {
    /// Since the machine's start. Nobody can set it, and it also runs while a process is frozen or the machine sleeps.
    package var boot: @Sendable () -> Milliseconds
    /// Since the epoch. Anybody with the rights can set it.
    package var wall: @Sendable () -> Milliseconds
    /// Names this start of the machine: within one, all processes share `boot`.
    package var bootID: String

    package static let system = MachineClock(
        boot: { SystemClock.boot.milliseconds }, wall: { SystemClock.wall.milliseconds }, bootID: readBootID())

    /// Both at one moment: who is stopped between the two looks again.
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

/// When two clocks are further apart than they drift, one of them was set.
package enum ClockBounds {
    /// In milliseconds: more than any drift, and than the longest wait for an answer.
    package static let step: Milliseconds = 1_000
    /// A clock that was set is followed by one millisecond in so many: nobody's minute of ringing is a tenth of a second longer.
    package static let slew: Milliseconds = 1_000
    /// So much at most is made up for at one look, in milliseconds.
    package static let longestSlew: Milliseconds = 60
    /// How often the time is told, in milliseconds, by whoever looks then: often enough for who has just started to see that others are
    /// there, and seldom enough for a disk that is written each time.
    package static let telling: Milliseconds = 400
}

/// The store's time as one process knows it: a clock that nobody can set, and how far the store's is from it.
package struct StoreClock: Sendable {
    private var offset: Milliseconds?
    /// The store has answered with a time that drift does not explain: its clock is to be looked at before it is used again.
    package private(set) var isDoubtful = false

    package init() {}

    package func now(boot: Milliseconds) -> Milliseconds? { offset.map { boot + $0 } }

    /// What this clock said at the moment between the two of the boot clock at which it was nearest to `time`: who is stopped while it
    /// asks for the time does not take its own pause for a clock that was set. Nil while it knows nothing.
    package func now(
        nearest time: Milliseconds, between before: Milliseconds, _ after: Milliseconds
    ) -> Milliseconds? {
        offset.map { min(max(time, before + $0), after + $0) }
    }

    /// The store's time was `time` at some moment between the two of the boot clock.
    package mutating func learn(_ time: Milliseconds, between before: Milliseconds, _ after: Milliseconds) {
        guard let known = offset else { return adopt(time, between: before, after) }
        // With two exchanges on their way there may be long between the two, of which the middle says little: what was known
        // stays as long as it can be true.
        let likely = min(max(known, time - max(before, after)), time - min(before, after))
        if abs(likely - known) > ClockBounds.step { isDoubtful = true } else { offset = likely }
    }

    /// The same of a time that was judged: whatever was known before does not count. The two are no more than `ClockBounds.step` apart,
    /// else the time would say too little.
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

/// What all coordinators of a store agree on about its clock: by how much it is corrected, since somebody may set it.
///
/// A call that rings must not time out because a clock was set, nor ring on. So the time by which calls are served goes on as the
/// coordinators' own clocks say, and follows the clock that was set by `ClockBounds.slew`.
package struct SharedClock: Equatable, Sendable {
    /// The time that counts minus what the store's machine says.
    package private(set) var correction: Milliseconds = 0
    /// The time that counts when somebody last looked.
    package private(set) var last: Milliseconds = 0
    /// What the wall clock of who looked last said more than that.
    package private(set) var skew: Milliseconds = 0
    /// How often the clock was found to be set, and by how much last, in milliseconds.
    package private(set) var steps: Int64 = 0
    package private(set) var lastStep: Milliseconds = 0

    package init() {}

    /// Somebody looks: `raw` is what the store's machine says, `expected` what the asker's own clock does, nil for one that has just
    /// started; `wall` is the asker's wall clock. Returns the time that counts.
    package mutating func look(raw: Milliseconds, expected: Milliseconds?, wall: Milliseconds) -> Milliseconds {
        var now = raw + correction
        let likely = expected ?? likely(raw: now, wall: wall)
        // Who expects an earlier time than others have seen stood still: then it is not the store that is wrong.
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

    /// Who has just started knows two clocks that may have been set while nobody was there. One that went back is wrong; of two that
    /// differ, the one counts that says that less time has passed: then a call rings on for a while, and does not end before its time.
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
        // Counted by the clock, and not by what lies between two looks: there may be many in a second.
        let most = min(max(now / ClockBounds.slew - last / ClockBounds.slew, 0), ClockBounds.longestSlew)
        let change = min(max(-correction, -most), most)
        correction += change
        now += change
    }

    /// Whether the others must be told of it: the clock was set, or it is some time since somebody has told them of the time.
    package func isNews(since known: SharedClock) -> Bool {
        steps != known.steps || last >= known.last + ClockBounds.telling
    }

    // MARK: As a store keeps it

    package var text: String { "\(correction):\(last):\(skew):\(steps):\(lastStep)" }

    /// Nil when `text` is none of these.
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
