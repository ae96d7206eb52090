import CallCore
import CallStore
import SignalingProtocol

/// Collects timeline entries until they are written, in batches and after all other writes: no request waits for its
/// timeline.
struct TraceRecorder {
    /// The bound on entries that wait to be written. Further entries are dropped and counted.
    static let capacity = 20_000
    /// The bounds, with the policy `errors`, on calls with entries that are held in case an error follows, and on
    /// entries per call.
    static let heldCalls = 2_000
    static let heldEntries = 50

    let policy: TracePolicy
    let coordinator: String
    private var dropped = 0
    private var waiting: [CallTrace] = []
    private var places: [CallID: Int] = [:]
    private(set) var waitingCount = 0
    /// With the policy `errors`: the entries of calls without an error so far, written when an error follows.
    /// `heldOrder` has the longest held call first.
    private var held: [CallID: [TraceEntry]] = [:]
    private var heldOrder: [CallID] = []
    /// The calls with an error.
    private var troubled: Set<CallID> = []

    init(policy: TracePolicy, coordinator: String) {
        self.policy = policy
        self.coordinator = coordinator
    }

    func isTraced(_ callID: CallID) -> Bool { policy.keeps(callID) }

    /// Adds the steps of a call that is traced; `steps` is not evaluated for other calls. `origins` has the origins of
    /// requests by the places of their steps.
    mutating func add(
        _ steps: @autoclosure () -> [TraceEntry.Step], _ origins: [Int: TraceOrigin] = [:], of callID: CallID,
        at now: Milliseconds
    ) {
        guard isTraced(callID) else { return }
        let steps = steps()
        guard !steps.isEmpty else { return }
        let entries = steps.indices.map { place in
            TraceEntry(time: now, coordinator: coordinator, step: steps[place], origin: origins[place])
        }
        guard policy == .errors, !troubled.contains(callID) else {
            append(entries, of: callID)
            return
        }
        let known = held[callID]
        guard steps.contains(where: \.isTrouble) else {
            guard !steps.contains(where: \.isEnd) else {
                held[callID] = nil
                return
            }
            if known == nil { makeRoom(for: callID) }
            held[callID] = ((known ?? []) + entries).suffix(Self.heldEntries)
            return
        }
        if troubled.count >= Self.heldCalls { troubled.removeAll() }
        troubled.insert(callID)
        held[callID] = nil
        append((known ?? []) + entries, of: callID)
    }

    private mutating func makeRoom(for callID: CallID) {
        heldOrder.append(callID)
        guard heldOrder.count > Self.heldCalls else { return }
        for old in heldOrder.prefix(Self.heldCalls / 2) { held[old] = nil }
        heldOrder.removeFirst(Self.heldCalls / 2)
    }

    private mutating func append(_ entries: [TraceEntry], of callID: CallID) {
        guard waitingCount + entries.count <= Self.capacity else {
            dropped += entries.count
            return
        }
        waitingCount += entries.count
        if let place = places[callID] {
            waiting[place].entries += entries
        } else {
            places[callID] = waiting.count
            waiting.append(CallTrace(callID, entries))
        }
    }

    var hasWaiting: Bool { waitingCount > 0 || dropped > 0 }

    /// Takes out the entries that wait to be written, and the number of dropped entries.
    mutating func take() -> (traces: [CallTrace], dropped: Int) {
        defer {
            dropped = 0
            waiting.removeAll(keepingCapacity: true)
            places.removeAll(keepingCapacity: true)
            waitingCount = 0
        }
        return (waiting, dropped)
    }
}

extension TraceEntry.Step {
    fileprivate var isEnd: Bool {
        if case .transition(_, .ended, _, _, _) = self { true } else { false }
    }

    /// Whether the step is an error that an operator would look for.
    fileprivate var isTrouble: Bool {
        switch self {
        case .request(_, _, let outcome): outcome != "ok"
        case .transition(_, _, let endReason, _, let changes):
            changes.contains { $0.state == .notYetReceived || $0.state == .timeout }
                || [.callerLost, .heartbeatTimeout, .timeout].contains(endReason)
        case .send(let event, _, _, _, let online, let isResend): isResend || event == .invited && online == 0
        case .push(let push): [.refused, .gone, .failed].contains(push.outcome)
        case .ack, .presence, .deadline, .media: false
        }
    }
}
