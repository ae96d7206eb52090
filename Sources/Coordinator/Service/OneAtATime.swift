import CallCore
import CallStore

/// A coordinator that serves a single message or sweep at a time and keeps no memory that matters, for tests that try
/// every sequence of changes to stored records. Each method returns when all its work is done.
package struct OneAtATime {
    private let service: CallService

    package init(_ service: CallService) { self.service = service }

    package func process(_ message: InboundMessage) -> [OutboundMessage] {
        var queue = WorkQueue()
        var messages = service.read([message], into: &queue, at: 0)
        if let next = queue.next(1, 0) { complete { await service.serveBatch(next.batch) { messages += $0 } } }
        return messages
    }

    /// Serves the deadlines that are due.
    package func sweep() -> [OutboundMessage] {
        complete {
            let ids = await service.overdue(grace: 0, limit: ServiceBounds.deadlinesPerBatch)
            return await service.serveDeadlines(ids ?? [])
        }
    }

    package func published(_ messages: [OutboundMessage]) { complete { await service.published(messages) } }

    private func complete<Value>(_ work: @escaping () async -> Value) -> Value {
        WorkExecutor().complete(service.store, work)
    }
}
