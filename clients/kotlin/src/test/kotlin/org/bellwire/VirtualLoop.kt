package org.bellwire

import org.bellwire.transport.Connection
import org.bellwire.transport.ConnectionFailure
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.Transport
import java.util.PriorityQueue
import java.util.concurrent.ConcurrentLinkedQueue

/** A loop of virtual time: tasks run when the test lets time pass. */
internal class VirtualLoop : Loop {
    private class Entry(val at: Long, val order: Long, val task: () -> Unit)

    private val entries = PriorityQueue<Entry>(compareBy({ it.at }, { it.order }))

    /** Tasks that other threads post. */
    private val posted = ConcurrentLinkedQueue<() -> Unit>()
    private var order = 0L
    var hasEnded = false
        private set
    override var now = 1_000_000L
        private set

    override fun post(task: () -> Unit): Boolean = !hasEnded && posted.add(task)

    override fun after(delay: Long, task: () -> Unit): Timer {
        val entry = Entry(now + delay, order++, task)
        entries += entry
        return Timer { entries.remove(entry) }
    }

    override fun end() {
        hasEnded = true
    }

    /** Runs the posted tasks, without letting time pass. */
    fun run() {
        while (runOne()) Unit
    }

    /** Runs the first task that was posted. Returns false when there is none. */
    fun runOne(): Boolean {
        (posted.poll() ?: return false)()
        return true
    }

    fun pass(milliseconds: Long) {
        val end = now + milliseconds
        run()
        while (true) {
            val entry = entries.peek()?.takeIf { it.at <= end } ?: break
            entries.remove(entry)
            now = maxOf(now, entry.at)
            entry.task()
            run()
        }
        now = end
    }
}

/** A broker that the test controls. */
internal class FakeBroker : Transport {
    class Link(val settings: ConnectionSettings, val handlers: ConnectionHandlers) : Connection {
        val published = mutableListOf<Pair<String, String>>()
        val expiries = mutableListOf<Int?>()
        var isClosed = false
        var asked = 0
        override var backlog = 0

        /** The largest message that the broker accepts, in characters. */
        var largest = Int.MAX_VALUE

        override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
            check(!publishFails) { "broken" }
            if (payload.length > largest) return false
            published += topic to payload
            expiries += expiry
            return true
        }

        override fun ask() {
            asked += 1
        }

        var closeFails = false
        var publishFails = false

        override fun close() {
            check(!closeFails) { "broken" }
            isClosed = true
        }

        /** The last published message of this type, as JSON. */
        fun last(type: String) = published.map { kotlinx.serialization.json.Json.parseToJsonElement(it.second) as kotlinx.serialization.json.JsonObject }
            .last { it.text("type") == type }

        /** The session of the last presence message. */
        val session get() = published.last { "/presence/" in it.first }.second.substringAfter("\"session\":\"").substringBefore("\"")

        fun accept() {
            handlers.accepted()
            handlers.subscribed()
        }

        fun welcome(rest: String = "") = handlers.message(
            """{"type":"welcome","session":"$session","serverTime":0,"heartbeatInterval":20,"calls":[]$rest}""",
        )
    }

    val links = mutableListOf<Link>()
    val last get() = links.last()

    /** The exception that the transport throws, as for an address that is not valid. */
    var failure: RuntimeException? = null

    override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection {
        failure?.let { throw it }
        return Link(settings, handlers).also(links::add)
    }
}

internal fun lost(message: String = "lost") = ConnectionFailure(message)
