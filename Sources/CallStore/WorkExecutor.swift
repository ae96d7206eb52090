import CallCore
import Glibc
import Support

/// Runs asynchronous work in one thread: what is ready runs when `run` is called, in the order in which it became ready, and nowhere
/// else. The same events make the same things happen in the same order (docs/decisions/0017).
///
/// It, what it runs and what that waits for belong to one thread at a time.
package final class WorkExecutor: TaskExecutor, @unchecked Sendable {
    /// What is ready, from `next` on.
    private var ready: [UnownedJob] = []
    private var next = 0

    package init() {}

    package var isIdle: Bool { next == ready.count }

    package func enqueue(_ job: consuming ExecutorJob) { ready.append(UnownedJob(job)) }

    /// Begins work; it runs with the next `run`.
    package func start(_ work: @escaping () async -> Void) {
        nonisolated(unsafe) let work = work
        Task(executorPreference: self) { await work() }
    }

    /// Runs what is ready, and what that makes ready, until everything waits or has ended.
    package func run() {
        while next < ready.count {
            let job = ready[next]
            next += 1
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
        ready.removeAll(keepingCapacity: true)
        next = 0
    }

    /// Runs work to its end, which may wait for nothing but the store.
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
    /// Waits until something has arrived, or is given up.
    fileprivate func waitForAnswers() {
        guard let socket, let deadline = socket.deadline else {
            preconditionFailure("the work waits for something else")
        }
        var descriptor = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
        if socket.waitsToSend { descriptor.events |= Int16(POLLOUT) }
        _ = poll(&descriptor, 1, Int32(clamping: max(0, deadline - SystemClock.boot.milliseconds) + 1))
        receive()
    }
}
