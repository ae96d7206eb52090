import SignalingProtocol

/// The faults, with their start and end. The faults decide how late the service may be.
struct Disturbances {
    /// A period in which `target` did not serve; `to` is `.max` while the fault lasts.
    struct Interval: Equatable {
        let target: String
        let from: Int64
        var to: Int64 = .max
    }

    /// The target name that stands for the whole machine.
    private static let machine = "machine"

    var coordinators: [String] = []
    private(set) var intervals: [Interval] = []
    private var losses: [DeviceAddress: [Int64]] = [:]

    mutating func began(_ target: String, at: Int64) {
        guard !intervals.contains(where: { $0.target == target && $0.to == .max }) else { return }
        intervals.append(Interval(target: target, from: at))
    }

    mutating func ended(_ target: String, at: Int64) {
        guard let index = intervals.lastIndex(where: { $0.target == target && $0.to == .max }) else { return }
        intervals[index].to = at
    }

    mutating func stalled(since: Int64, until: Int64) {
        intervals.append(Interval(target: Self.machine, from: since, to: until))
    }

    /// Adds a fault that becomes known only after its end.
    mutating func ended(_ target: String, since: Int64, at: Int64) {
        intervals.append(Interval(target: target, from: since, to: at))
    }

    mutating func lost(_ device: DeviceAddress, at: Int64) { losses[device, default: []].append(at) }

    mutating func forget(before moment: Int64) {
        intervals.removeAll { $0.to < moment }
        for (device, times) in losses {
            let kept = times.filter { $0 >= moment }
            losses[device] = kept.isEmpty ? nil : kept
        }
    }

    /// Whether there was any fault between the two moments.
    func touch(_ from: Int64, _ to: Int64) -> Bool { intervals.contains { $0.from <= to && $0.to >= from } }

    /// Whether this target did not serve at some time between the two moments.
    func hadOutage(of target: String, _ from: Int64, _ to: Int64) -> Bool {
        intervals.contains { $0.target == target && $0.from <= to && $0.to >= from }
    }

    /// Whether a message to or from the device was lost between the two moments.
    func hadLoss(_ device: DeviceAddress, _ from: Int64, _ to: Int64) -> Bool {
        losses[device]?.contains { $0 >= from && $0 <= to } ?? false
    }

    /// Returns the earliest time at which an action that was due at `moment` was possible: the end of the outages that
    /// begin within `tolerance` of the due time. In an outage no coordinator can serve.
    func clear(after moment: Int64, tolerance: Int64) -> Int64 {
        var start = moment
        while start < .max, let end = outageEnd(from: start, to: start + tolerance), end > start { start = end }
        return start
    }

    private func outageEnd(from: Int64, to: Int64) -> Int64? {
        var end: Int64?
        for interval in intervals where interval.from <= to && interval.to > from {
            let isCoordinator = coordinators.contains(interval.target)
            let own = isCoordinator ? commonEnd(at: max(from, interval.from)) : interval.to
            if let own, own > end ?? from { end = own }
        }
        return end
    }

    /// Returns when the first coordinator serves again; nil if a coordinator serves at `moment`.
    private func commonEnd(at moment: Int64) -> Int64? {
        var first = Int64.max
        for coordinator in coordinators {
            guard
                let own = intervals.filter({ $0.target == coordinator && $0.from <= moment && $0.to > moment })
                    .map(\.to).max()
            else { return nil }
            first = min(first, own)
        }
        return first
    }
}
