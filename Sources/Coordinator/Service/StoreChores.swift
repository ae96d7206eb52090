import CallCore
import CallStore
import SignalingProtocol

/// What a coordinator does now and then with the store, for nobody in particular.
struct StoreChores {
    let context: ServiceContext

    private var store: any CallStore { context.store }

    /// To be called every second: endpoints come and go, as what is pushed does, and what is kept for them is bounded, whoever hands it over or
    /// does not.
    /// Returns whether something was beyond its bounds, so that there may be more of it.
    func readEndpoints() async -> Bool {
        var isBeyond = false
        do throws(StoreError) {
            for endpoint in try await context.readEndpoints() {
                let loss = try await store.bound(endpoint.name, endpoint.bounds)
                let name = endpoint.name.string
                if loss.becameDead > 0 { context.counters.add(.deadLetters, name, loss.becameDead) }
                if loss.deleted > 0 { context.counters.add(.revisionsDeleted, name, loss.deleted) }
                if loss != OutboxLoss() { isBeyond = true }
            }
            // Where nothing is pushed, no call ever waits for that.
            if try await context.readPushPolicy() != nil {
                let forgotten = try await store.boundPushes()
                context.counters.add(.callsNotPushed, forgotten)
                if forgotten > 0 { isBeyond = true }
            }
        } catch {
            context.failed(error)
        }
        return isBeyond
    }

    /// Looks at a shared store: whether it answers, and can be written.
    func lookAtStore() async {
        do throws(StoreError) {
            context.health.answered(isWrite: try await store.lookAtClock())
        } catch {
            context.failed(error)
        }
    }

    /// Removes what is over. Returns whether there may be more.
    func clean() async -> Bool {
        do throws(StoreError) {
            let removed = try await store.clean(limit: ServiceBounds.recordsPerCleaning)
            context.health.answered(isWrite: !store.isShared)
            context.counters.add(.recordsCleaned, removed)
            return removed == ServiceBounds.recordsPerCleaning
        } catch {
            context.failed(error)
            return false
        }
    }

    func writeTraces() async { await Timelines(context: context).write() }

    /// Something is noted, or was dropped.
    var hasTraces: Bool { context.recorder.hasWaiting }

    var hasUsage: Bool { context.usage.hasWaiting }

    /// So much is noted that it should be written before there is more.
    var hasManyTraces: Bool { context.recorder.waitingCount > TraceRecorder.capacity / 4 }

    /// Writes how much is kept because of users. Nobody waits for it; what cannot be written is not counted.
    func writeUsage() async {
        let usage = context.usage.take()
        guard !usage.isEmpty, let now = store.time, context.settings.quotas.storedBytes > 0 else { return }
        do throws(StoreError) {
            try await store.charge(KeptBytes(context.settings, now: now).charges(usage))
        } catch {
            context.failed(error)
        }
    }
}
