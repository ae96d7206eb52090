import CallCore
import CallStore
import SignalingProtocol

/// Serves deadlines: this coordinator's own from its timers, and all coordinators' deadlines from the store's due
/// index.
extension BatchService {
    /// Serves the deadlines of these records.
    func serveDeadlines(_ ids: [RecordID]) async {
        do throws(StoreError) {
            try await readClock()
            // With many coordinators, most calls have changed elsewhere and have another deadline now; asking the due
            // index costs less than loading each call. The sweep finds a deadline that is due and was not served here.
            await serveDue(try await store.due(ids, before: now))
        } catch {
            context.failed(error)
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
        await serveCalls(calls)
        await serveMessages(messages)
    }

    /// Returns records with a deadline that has been due for `grace` milliseconds and was not served, except resends
    /// that this coordinator put off and records that cannot be read. Returns nil when the store did not answer.
    func overdue(grace: Milliseconds, limit: Int) async -> [RecordID]? {
        do throws(StoreError) {
            // The chore `look` reads the clock of a shared store all the time.
            if !store.isShared { _ = try await store.lookAtClock() }
            try await readClock()
            let due = try await store.due(
                before: now - grace, limit: limit,
                besides: context.setAside.ids(now: now).union(context.timers.putOff))
            context.health.answered(isWrite: false)
            return due
        } catch {
            context.failed(error)
            return nil
        }
    }
}
