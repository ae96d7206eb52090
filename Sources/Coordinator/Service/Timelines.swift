import CallCore
import CallStore
import SignalingProtocol

/// Reads and writes timelines in the store. Timelines are written after all other records (docs/protocol.md, section
/// 6).
struct Timelines {
    let context: ServiceContext

    private var store: any TimelineStore { context.store }

    /// Returns the call's timeline, including the entries that this coordinator has not written yet.
    func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        await write()
        return try await store.timeline(of: callID)
    }

    /// Writes the collected entries. No request waits for this write, and entries that cannot be written are dropped.
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
