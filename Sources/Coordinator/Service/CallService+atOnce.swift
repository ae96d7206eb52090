import CallCore
import CallDeciding
import CallStore

/// One thing at a time, by a coordinator that has nothing else to do and no memory that counts: for who tries everything that can happen
/// to what is stored. Each of these returns when all is done.
extension CallService {
    package func process(_ message: InboundMessage) -> [OutboundMessage] {
        var queue = WorkQueue()
        var messages = read([message], into: &queue, at: 0)
        if let next = queue.next(1, 0) { messages += complete { await self.serve(next.round) } }
        return messages
    }

    /// Serves what is due.
    package func sweep() -> [OutboundMessage] {
        complete {
            let ids = await self.overdue(grace: 0, limit: ServiceBounds.deadlinesPerRound)
            return await self.serveDeadlines(ids ?? [])
        }
    }

    package func published(_ messages: [OutboundMessage]) { complete { await self.published(messages) } }

    private func complete<Value>(_ work: @escaping () async -> Value) -> Value {
        WorkExecutor().complete(store, work)
    }
}
