package org.bellwire

import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow

/** The bounds on elements that wait for a collector. Beyond either bound the oldest elements are dropped. */
private const val LONGEST_BACKLOG = 1_024
private const val LARGEST_BACKLOG = 1_048_576

/**
 * Gives each element to every collector. Elements that come while there is no collector wait for the next; so do those
 * that the last collector has left behind. `size`: the characters that an element keeps in memory.
 */
internal class EventHub<Element : Any>(private val size: (Element) -> Int = { 0 }) {
    private inner class Backlog {
        val elements = ArrayDeque<Element>()
        private var total = 0

        fun add(element: Element) {
            elements.addLast(element)
            total += size(element)
            while (elements.size > LONGEST_BACKLOG || total > LARGEST_BACKLOG && elements.size > 1) take()
        }

        fun take(): Element? = elements.removeFirstOrNull()?.also { total -= size(it) }

        fun withdraw(isOver: (Element) -> Boolean) {
            elements.removeAll(isOver)
            total = elements.sumOf(size)
        }
    }

    private inner class Collector(val backlog: Backlog) {
        /** Wakes the collector. */
        val news = Channel<Unit>(Channel.CONFLATED)
    }

    private val collectors = mutableSetOf<Collector>()

    /** The elements that wait for a collector. */
    private var kept = Backlog()
    private var isFinished = false

    /** The elements from the beginning of the collection, and those that wait. Completes when the hub is finished. */
    val elements: Flow<Element> = flow {
        val collector = open()
        try {
            while (true) {
                // A collector that has just been cancelled takes nothing more.
                currentCoroutineContext().ensureActive()
                val element = synchronized(this@EventHub) { collector.backlog.take() }
                if (element != null) emit(element) else if (collector.news.receiveCatching().isClosed) break
            }
        } finally {
            leave(collector)
        }
    }

    @Synchronized
    private fun open(): Collector {
        val collector = Collector(if (collectors.isEmpty()) kept.also { kept = Backlog() } else Backlog())
        collectors += collector
        if (isFinished) collector.news.close()
        return collector
    }

    @Synchronized
    private fun leave(collector: Collector) {
        collectors -= collector
        if (collectors.isEmpty()) kept = collector.backlog
    }

    fun tell(element: Element) {
        val readers = synchronized(this) {
            if (isFinished) return
            for (collector in collectors) collector.backlog.add(element)
            if (collectors.isEmpty()) kept.add(element)
            collectors.toList()
        }
        // A collector may run in this thread, and must not meet the lock.
        for (reader in readers) reader.news.trySend(Unit)
    }

    /** Removes the elements that wait and are over. */
    @Synchronized
    fun withdraw(isOver: (Element) -> Boolean) {
        kept.withdraw(isOver)
        for (collector in collectors) collector.backlog.withdraw(isOver)
    }

    /** Ends all collections after the elements so far. */
    fun finish() {
        val readers = synchronized(this) {
            isFinished = true
            collectors.toList()
        }
        for (reader in readers) reader.news.close()
    }
}
