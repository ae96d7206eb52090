import CallCore
import CallStore
import SignalingProtocol

/// Timelines in the store, which are written behind everything else (docs/protocol.md, section 6).
struct Timelines {
    let context: ServiceContext

    private var store: any TimelineStore { context.store }

    /// The call's timeline, with what this coordinator has not written yet.
    func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        await write()
        return try await store.timeline(of: callID)
    }

    /// Writes what was noted. Nobody waits for it, and what cannot be written is dropped.
    func write() async {
        let (traces, dropped) = context.recorder.take()
        context.counters.add(.traceEntriesDropped, dropped)
        guard !traces.isEmpty else { return }
        do throws(StoreError) {
            try await store.trace(traces, life: context.settings.historyRetention)
        } catch {
            context.counters.add(.traceEntriesDropped, traces.reduce(0) { $0 + $1.entries.count })
            context.failed(error)
        }
    }
}
