import SignalingProtocol

/// The figures of a history.
package struct Summary: Sendable {
    package internal(set) var entries = 0
    package internal(set) var requests = 0
    /// Responses by outcome: `ok` or an error code.
    package internal(set) var answers: [String: Int] = [:]
    /// The number of calls by end reason; live calls by their state.
    package internal(set) var calls: [String: Int] = [:]
    /// The number of peer messages by state.
    package internal(set) var messages: [String: Int] = [:]
    package internal(set) var faults: [String: Int] = [:]
    package internal(set) var violations: [Violation.Kind: Int] = [:]
    package internal(set) var timers = (undisturbed: 0, disturbed: 0)
    /// The greatest lateness of a timer, in milliseconds.
    package internal(set) var latestTimer: (undisturbed: Int64, disturbed: Int64) = (0, 0)
    /// How long a phone rang on after the end of its invitation, at most, in milliseconds.
    package internal(set) var longestRinging: (undisturbed: Int64, disturbed: Int64) = (0, 0)
    /// The slowest response to an undisturbed request with a single copy, in milliseconds.
    package internal(set) var slowestAnswer: Int64 = 0
    /// Whether the history has a `settled` entry. The checker looks for devices that were not told only in a history
    /// with this entry.
    package internal(set) var isSettled = false

    mutating func count(_ call: CallHistory) {
        guard let latest = call.latest?.call else { return }
        calls["\(latest.mode.rawValue) \(latest.endReason?.rawValue ?? latest.state.rawValue)", default: 0] += 1
    }

    mutating func timerFired(late: Int64, disturbed: Bool) {
        if disturbed {
            timers.disturbed += 1
            latestTimer.disturbed = max(latestTimer.disturbed, late)
        } else {
            timers.undisturbed += 1
            latestTimer.undisturbed = max(latestTimer.undisturbed, late)
        }
    }

    mutating func ringingStopped(late: Int64, disturbed: Bool) {
        if disturbed {
            longestRinging.disturbed = max(longestRinging.disturbed, late)
        } else {
            longestRinging.undisturbed = max(longestRinging.undisturbed, late)
        }
    }
}

extension Summary: CustomStringConvertible {
    package var description: String {
        func list(_ counts: [String: Int]) -> String {
            counts.isEmpty
                ? "none" : counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        }
        func pair(_ values: (undisturbed: Int64, disturbed: Int64)) -> String {
            "\(values.undisturbed) ms undisturbed, \(values.disturbed) ms disturbed"
        }
        let kinds = Dictionary(uniqueKeysWithValues: violations.map { ($0.key.rawValue, $0.value) })
        return [
            "entries: \(entries)" + (isSettled ? "" : " (not settled: convergence was not judged)"),
            "calls: \(calls.values.reduce(0, +)) (\(list(calls)))",
            "requests: \(requests); answers: \(list(answers))",
            "peer messages: \(list(messages))",
            "faults: \(list(faults))",
            "timers fired: \(timers.undisturbed) undisturbed, \(timers.disturbed) disturbed; "
                + "at most \(pair(latestTimer)) late",
            "rang on after the end of the invitation: at most \(pair(longestRinging))",
            "slowest undisturbed answer: \(slowestAnswer) ms",
            "violations: \(violations.values.reduce(0, +))" + (kinds.isEmpty ? "" : " (\(list(kinds)))"),
        ].joined(separator: "\n")
    }
}
