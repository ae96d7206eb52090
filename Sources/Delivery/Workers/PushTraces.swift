import CallCore
import CallStore
import SignalingProtocol

/// What is told of pushes in timelines, until it is written.
struct PushTraces {
    /// Entries that wait; beyond it new ones are dropped.
    static let capacity = 20_000

    private let policy: TracePolicy
    private let name: String
    private var waiting: [CallID: [TraceEntry]] = [:]
    private var count = 0

    /// `name`: of this process, as timelines show it.
    init(_ policy: TracePolicy, name: String) {
        self.policy = policy
        self.name = name
    }

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ step: PushStep, of callID: CallID, at time: Milliseconds) {
        guard policy.keeps(callID), count < Self.capacity else { return }
        // What went well is no error, and its process does not know of any other.
        if policy == .errors, step.outcome == .sent { return }
        waiting[callID, default: []].append(TraceEntry(time: time, coordinator: name, step: .push(step)))
        count += 1
    }

    mutating func take() -> [CallTrace] {
        defer { (waiting, count) = ([:], 0) }
        return waiting.sorted { $0.key < $1.key }.map { CallTrace($0.key, $0.value) }
    }
}
