import SignalingProtocol

/// The times that calls took to reach their milestones, as devices reported with `call.report`, by milestone and by the
/// member's role. The inviter's time counts from its invite, the invitee's from its ringing.
package struct MilestoneHistograms: Sendable, Equatable {
    package struct Key: Hashable, Sendable, Comparable {
        package let milestone: String
        package let role: String

        package static func < (lhs: Key, rhs: Key) -> Bool { (lhs.milestone, lhs.role) < (rhs.milestone, rhs.role) }
    }

    package struct Histogram: Sendable, Equatable {
        /// The number of values at or below each of `bounds`.
        package fileprivate(set) var buckets = [Int](repeating: 0, count: bounds.count)
        package fileprivate(set) var sum: Int64 = 0
        package fileprivate(set) var count = 0
    }

    /// The upper bounds of the buckets, in milliseconds.
    package static let bounds: [Int64] = [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000]
    static let name = "bellwire_milestone_milliseconds"

    package private(set) var values: [Key: Histogram] = [:]

    /// Adds a milestone. Unknown names share a histogram, so that no device can create metrics without end.
    mutating func observe(_ milestone: Milestone, role: String) {
        let name = Milestone.wellKnown.contains(milestone.name) ? milestone.name : "other"
        var histogram = values[Key(milestone: name, role: role)] ?? Histogram()
        for (index, bound) in Self.bounds.enumerated() where milestone.milliseconds <= bound {
            histogram.buckets[index] += 1
        }
        histogram.sum += milestone.milliseconds
        histogram.count += 1
        values[Key(milestone: name, role: role)] = histogram
    }

    /// The histograms in the Prometheus text format.
    var text: String {
        var text = "# HELP \(Self.name) Milestones of calls as devices reported them.\n# TYPE \(Self.name) histogram\n"
        for (key, histogram) in values.sorted(by: { $0.key < $1.key }) {
            let labels = "milestone=\"\(key.milestone)\",role=\"\(key.role)\""
            for (bound, count) in zip(Self.bounds, histogram.buckets) {
                text += "\(Self.name)_bucket{\(labels),le=\"\(bound)\"} \(count)\n"
            }
            text += "\(Self.name)_bucket{\(labels),le=\"+Inf\"} \(histogram.count)\n"
            text += "\(Self.name)_sum{\(labels)} \(histogram.sum)\n\(Self.name)_count{\(labels)} \(histogram.count)\n"
        }
        return text
    }
}
