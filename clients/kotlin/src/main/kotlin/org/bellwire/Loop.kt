package org.bellwire

import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit

/** Runs tasks one after the other, and knows the time. Tests have a loop of virtual time. */
internal interface Loop {
    /** Milliseconds of a clock that never goes back. */
    val now: Long

    /** Runs the task after all tasks that were posted before. Returns false when the loop has ended. */
    fun post(task: () -> Unit): Boolean

    /** Runs the task after `delay` milliseconds, unless it is cancelled before. */
    fun after(delay: Long, task: () -> Unit): Timer

    /** Ends the loop after the tasks that were posted before. */
    fun end()
}

/** A task that has not run yet. */
internal fun interface Timer {
    fun cancel()
}

/**
 * A loop on a thread of its own. The thread does not keep the process alive. The delays of `after` may stand still
 * while the device sleeps, although `clock` goes on.
 */
internal class ThreadLoop(
    name: String,
    private val clock: () -> Long = { System.nanoTime() / 1_000_000 },
    private val log: ClientLog = ClientLog(null),
) : Loop {
    private val executor = ScheduledThreadPoolExecutor(1) { task -> Thread(task, name).apply { isDaemon = true } }

    init {
        executor.removeOnCancelPolicy = true
    }

    override val now: Long get() = clock()

    /** In turns with `end`: an executor that shuts down while a task comes may drop the task without a rejection. */
    @Synchronized
    override fun post(task: () -> Unit): Boolean = try {
        executor.execute { guarded(task) }
        true
    } catch (_: RejectedExecutionException) {
        false
    }

    override fun after(delay: Long, task: () -> Unit): Timer = try {
        val scheduled = executor.schedule({ guarded(task) }, delay, TimeUnit.MILLISECONDS)
        Timer { scheduled.cancel(false) }
    } catch (_: RejectedExecutionException) {
        Timer {}
    }

    /** A fault of the SDK must not end the app, nor the loop, and must be seen. */
    private fun guarded(task: () -> Unit) {
        try {
            task()
        } catch (failure: Throwable) {
            log.warning("a fault of the SDK", failure)
        }
    }

    @Synchronized
    override fun end() = executor.shutdown()
}
