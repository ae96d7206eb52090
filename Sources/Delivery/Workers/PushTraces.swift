import CallCore
import CallStore
import SignalingProtocol

/// The timeline entries of pushes, until they are written.
struct PushTraces {
    /// The bound of waiting entries; beyond this bound new entries are dropped.
    static let capacity = 20_000

    private let policy: TracePolicy
    private let name: String
    private var waiting: [CallID: [TraceEntry]] = [:]
    private var count = 0

    /// - Parameter name: the name of this process in timelines.
    init(_ policy: TracePolicy, name: String) {
        self.policy = policy
        self.name = name
    }

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ step: PushStep, of callID: CallID, at time: Milliseconds) {
        guard policy.keeps(callID), count < Self.capacity else { return }
        // A sent push is no error, and this process does not know of errors elsewhere in the call.
        if policy == .errors, step.outcome == .sent { return }
        waiting[callID, default: []].append(TraceEntry(time: time, coordinator: name, step: .push(step)))
        count += 1
    }

    mutating func take() -> [CallTrace] {
        defer { (waiting, count) = ([:], 0) }
        return waiting.sorted { $0.key < $1.key }.map { CallTrace($0.key, $0.value) }
    }
}
