import CallCore
import Glibc
import Support

/// Runs asynchronous work in one thread. Ready jobs run only when `run` is called, in the order in which they became
/// ready. The same events thus cause the same effects in the same order (docs/decisions/0017).
///
/// The executor, its work and the objects that the work waits for belong to one thread at a time.
package final class WorkExecutor: TaskExecutor, @unchecked Sendable {
    /// The ready jobs, from index `next` on.
    private var ready: [UnownedJob] = []
    private var next = 0

    package init() {}

    package var isIdle: Bool { next == ready.count }

    package func enqueue(_ job: consuming ExecutorJob) { ready.append(UnownedJob(job)) }

    /// Starts work, which runs with the next `run`.
    package func start(_ work: @escaping () async -> Void) {
        nonisolated(unsafe) let work = work
        Task(executorPreference: self) { await work() }
    }

    /// Runs the ready jobs, and the jobs that these make ready, until all work waits or has ended.
    package func run() {
        while next < ready.count {
            let job = ready[next]
            next += 1
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
        ready.removeAll(keepingCapacity: true)
        next = 0
    }

    /// Runs work to its end. The work may wait only for the store.
    package func complete<Value, Failure: Error>(
        _ store: some AnswersLater, _ work: @escaping () async throws(Failure) -> Value
    ) throws(Failure) -> Value {
        var result: Result<Value, Failure>?
        start {
            do throws(Failure) {
                result = .success(try await work())
            } catch {
                result = .failure(error)
            }
        }
        run()
        while result == nil {
            store.waitForAnswers()
            run()
        }
        return try result!.get()
    }
}

extension AnswersLater {
    /// Waits until an answer has arrived or a query has been given up.
    fileprivate func waitForAnswers() {
        guard let socket, let deadline = socket.deadline else {
            preconditionFailure("the work waits for an event outside the store")
        }
        var descriptor = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
        if socket.waitsToSend { descriptor.events |= Int16(POLLOUT) }
        _ = poll(&descriptor, 1, Int32(clamping: max(0, deadline - SystemClock.boot.milliseconds) + 1))
        receive()
    }
}
