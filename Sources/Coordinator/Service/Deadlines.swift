import CallCore
import CallStore
import SignalingProtocol

/// Deadlines: this coordinator's own from its timers, everybody's from the store's due index.
struct Deadlines {
    let serving: Serving

    private var context: ServiceContext { serving.context }

    /// Serves those that are due.
    func serve(_ ids: [RecordID]) async {
        do throws(StoreError) {
            try await serving.readClock()
            // With many replicas most calls went on elsewhere, and have another deadline now: asking costs less than a look at each. What
            // is due and not served here is found by the sweep.
            await serveDue(try await serving.store.due(ids, before: serving.now))
        } catch {
            context.failed(error)
        }
    }

    /// Deadlines that nobody served for `grace`, but for resends that were put off here. Nil when the store did not say.
    func overdue(grace: Milliseconds, limit: Int) async -> [RecordID]? {
        do throws(StoreError) {
            // A shared store is looked at all the time.
            if !serving.store.isShared { _ = try await serving.store.lookAtClock() }
            try await serving.readClock()
            let due = try await serving.store.due(
                before: serving.now - grace, limit: limit,
                besides: context.setAside.ids(now: serving.now).union(context.timers.putOff))
            context.health.answered(isWrite: false)
            return due
        } catch {
            context.failed(error)
            return nil
        }
    }

    private func serveDue(_ ids: [RecordID]) async {
        var calls: [CallWork] = []
        var messages: [MessageWork] = []
        for id in ids {
            switch id {
            case .call(let callID): calls.append(CallWork(id: callID, events: [.deadline]))
            case .message: messages.append(MessageWork(id: id, events: [.deadline]))
            }
        }
        await CallRounds(serving: serving).serve(calls)
        await MessageRounds(serving: serving).serve(messages)
    }
}
