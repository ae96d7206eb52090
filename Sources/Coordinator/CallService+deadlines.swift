import CallCore
import CallStore
import SignalingProtocol

/// Deadlines: this coordinator's own from its timers, everybody's from the store's due index.
extension CallService {
    /// When the next own deadline comes, by the store's clock.
    public var nextDeadline: Milliseconds? { timers.next }

    /// How many own deadlines are waiting.
    public var waitingDeadlines: Int { timers.count }

    /// Serves the own deadlines that have come. Returns what is to be published.
    public func serveDeadlines() -> [OutboundMessage] {
        readClock()
        guard clockFailure == nil else { return [] }
        serve(timers.take(until: now, limit: ServiceBounds.deadlinesPerRound).map(deadlineWork))
        return takeOutbox()
    }

    /// Serves deadlines that nobody served for `grace`: their coordinator is gone, or this is a restart.
    public func sweep(grace: Milliseconds) -> [OutboundMessage] {
        readClock()
        guard clockFailure == nil else { return [] }
        do throws(StoreError) {
            serve(try store.due(before: now - grace, limit: ServiceBounds.deadlinesPerRound).map(deadlineWork))
            storeFailure = nil
        } catch {
            failed(error)
        }
        return takeOutbox()
    }

    /// Removes what is over. Returns whether there may be more.
    public func clean() -> Bool {
        do throws(StoreError) {
            let removed = try store.clean(limit: ServiceBounds.recordsPerCleaning)
            counters.add(.recordsCleaned, "", removed)
            return removed == ServiceBounds.recordsPerCleaning
        } catch {
            failed(error)
            return false
        }
    }

    private func deadlineWork(_ callID: CallID) -> CallWork { CallWork(callID: callID, events: [.deadline]) }
}
