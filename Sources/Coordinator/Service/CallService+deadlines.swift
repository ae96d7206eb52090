import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Deadlines: this coordinator's own from its timers, everybody's from the store's due index.
extension CallService {
    /// When the next own deadline comes, by the store's clock.
    public var nextDeadline: Milliseconds? { timers.next }

    /// How many own deadlines are waiting.
    public var waitingDeadlines: Int { timers.count }

    /// Serves the own deadlines that have come. Returns what is to be published.
    package func serveDeadlines(limit: Int = ServiceBounds.deadlinesPerRound) -> [OutboundMessage] {
        readClock()
        guard clockFailure == nil else { return [] }
        let ids = timers.take(until: now, limit: limit)
        guard !ids.isEmpty else { return [] }
        do throws(StoreError) {
            // With many replicas most calls went on elsewhere, and have another deadline now: asking costs less than a look at
            // each. What is due and not served here is found by the sweep.
            serveDeadlines(of: try store.due(ids, before: now))
        } catch {
            failed(error)
        }
        return takeOutbox()
    }

    /// Serves deadlines that nobody served for `grace`: their coordinator is gone, or this is a restart. Returns what is
    /// to be published, and whether there were more than one round takes.
    package func sweep(
        grace: Milliseconds, limit: Int = ServiceBounds.deadlinesPerRound
    ) -> (messages: [OutboundMessage], hasMore: Bool) {
        var hasMore = false
        do throws(StoreError) {
            let hasWritten = try store.lookAtClock()
            readClock()
            if let clockFailure { throw clockFailure }
            let due = try store.due(before: now - grace, limit: limit, besides: setAside.ids(now: now))
            storeAnswered(isWrite: hasWritten)
            // Only after progress: deadlines that cannot be served must not be tried without a pause.
            let commits = counters[.commits]
            serveDeadlines(of: due)
            hasMore = due.count == limit && counters[.commits] > commits
        } catch {
            failed(error)
        }
        return (takeOutbox(), hasMore)
    }

    /// Looks at a shared store: whether it answers, and can be written.
    package func lookAtStore() {
        do throws(StoreError) {
            storeAnswered(isWrite: try store.lookAtClock())
        } catch {
            failed(error)
        }
    }

    /// Removes what is over. Returns whether there may be more.
    public func clean() -> Bool {
        do throws(StoreError) {
            let removed = try store.clean(limit: ServiceBounds.recordsPerCleaning)
            storeAnswered(isWrite: !store.isShared)
            counters.add(.recordsCleaned, removed)
            return removed == ServiceBounds.recordsPerCleaning
        } catch {
            failed(error)
            return false
        }
    }

    private func serveDeadlines(of ids: [RecordID]) {
        var calls: [CallWork] = []
        var messages: [MessageWork] = []
        for id in ids {
            switch id {
            case .call(let callID): calls.append(CallWork(id: callID, events: [.deadline]))
            case .message: messages.append(MessageWork(id: id, events: [.deadline]))
            }
        }
        serve(calls)
        serveMessages(messages)
    }
}
