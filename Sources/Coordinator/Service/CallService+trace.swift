import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Timelines (docs/protocol.md, section 6): what is decided and published is noted on the way, and written later.
extension CallService {
    /// The call's timeline, with what this coordinator has not written yet.
    func timeline(of callID: CallID) throws(StoreError) -> Timeline {
        writeTraces()
        var timeline = try store.timeline(of: callID)
        // Each coordinator writes when it has time: the order is that of the times, and of one coordinator its own.
        let order = timeline.entries.indices.sorted {
            (timeline.entries[$0].time, $0) < (timeline.entries[$1].time, $1)
        }
        timeline.entries = order.map { timeline.entries[$0] }
        return timeline
    }

    /// Writes what was noted. Nobody waits for it, and what cannot be written is dropped.
    public func writeTraces() {
        let (traces, dropped) = recorder.take()
        counters.add(.traceEntriesDropped, dropped)
        guard !traces.isEmpty else { return }
        do throws(StoreError) {
            try store.trace(traces, life: settings.historyRetention)
        } catch {
            counters.add(.traceEntriesDropped, traces.reduce(0) { $0 + $1.entries.count })
            failed(error)
        }
    }

    /// So much is noted that it should be written before there is more.
    public var hasManyTraces: Bool { recorder.waitingCount > TraceRecorder.capacity / 4 }

    /// Notes what a decision says, once it is published.
    func note(_ decision: Decision, _ call: Call) {
        record(steps(of: decision, call), of: call)
    }

    private func steps(of decision: Decision, _ call: Call) -> [TraceEntry.Step] {
        guard decision.isVisiblyChanged else { return decision.steps }
        let known = decision.subject.before?.revision ?? 0
        let changes = call.members.filter { $0.changedRevision > known }.map { member in
            // What members tell each other explains nothing here, and is long.
            var change = member.change
            change.extendedData = nil
            return change
        }
        return decision.steps + [
            .transition(
                revision: call.revision, state: call.state, endReason: call.endReason, actor: call.actor,
                changes: changes)
        ]
    }
}
