import CallCore
import CallDeciding
import CallStore

/// For who has nothing else to do while a store answers: each of these returns when all is done.
extension CallService {
    package func process(_ batch: [InboundMessage]) -> [OutboundMessage] {
        var messages: [OutboundMessage] = []
        process(batch) { messages += $0 }
        return messages
    }

    /// Serves a batch in rounds. `publish` is given what is to be published after each of them.
    package func process(_ batch: [InboundMessage], publish: ([OutboundMessage]) -> Void) {
        var queue = WorkQueue()
        let refusals = read(batch, into: &queue, at: 0)
        if !refusals.isEmpty { publish(refusals) }
        while let next = queue.next(.max, 0) {
            publish(complete { await self.serve(next.round) })
            queue.finish(next)
        }
    }

    package func serveDeadlines(limit: Int = ServiceBounds.deadlinesPerRound) -> [OutboundMessage] {
        let ids = takeDeadlines(limit: limit, isLate: false)
        return complete { await self.serveDeadlines(ids) }
    }

    /// Serves what nobody served for `grace`. Returns what is to be published, and whether there may be more.
    package func sweep(
        grace: Milliseconds, limit: Int = ServiceBounds.deadlinesPerRound
    ) -> (messages: [OutboundMessage], hasMore: Bool) {
        let ids = complete { await self.overdue(grace: grace, limit: limit) } ?? []
        // Only after progress: deadlines that cannot be served must not be tried without a pause.
        let commits = counters[.commits]
        let messages = complete { await self.serveDeadlines(ids) }
        return (messages, ids.count == limit && counters[.commits] > commits)
    }

    package func published(_ messages: [OutboundMessage]) { complete { await self.published(messages) } }

    package func lookAtStore() { complete { await self.lookAtStore() } }

    package func clean() -> Bool { complete { await self.clean() } }

    package func writeTraces() { complete { await self.writeTraces() } }

    package func writeUsage() { complete { await self.writeUsage() } }

    private func complete<Value>(_ work: @escaping () async -> Value) -> Value {
        WorkExecutor().complete(store, work)
    }
}
