package org.bellwire.machine

import org.bellwire.Placed

/*
 * Items of many senders, each sender's items in order (docs/protocol.md, section 2, Signals and Peer messages). The
 * Swift and the web SDK have the same `OrderedStreams`.
 */

/**
 * The times that a receiver waits for missing items, in milliseconds, and the number of items that the receiver
 * remembers.
 */
internal class StreamBounds(
    /** The wait of an unknown stream for items before its first item. */
    val beginning: Long,
    /** The wait for a gap. */
    val gap: Long,
    /**
     * The number of delivered items of a stream that are remembered to drop copies; 0 when copies are dropped before
     * reaching the stream.
     */
    val remembered: Int,
)

/** The bound on items that wait in a stream. Beyond this number the stream gives its first gap up. */
private const val MOST_HELD = 64

/** The bound on streams that are followed. */
private const val MOST_STREAMS = 64

/** The bound on streams of a single sender device. */
private const val STREAMS_PER_SOURCE = 4

private fun Placed.isOfSource(other: Placed): Boolean =
    streamCallID == other.streamCallID && from == other.from && fromDevice == other.fromDevice

internal class OrderedStreams<Item : Placed>(private val bounds: StreamBounds) {
    private val streams = mutableListOf<OrderedStream<Item>>()

    /** The time at which the first gap is given up. */
    val deadline: Long? get() = streams.mapNotNull { it.deadline }.minOrNull()

    /** Returns the items to deliver now, including items of a stream that is forgotten to make room. */
    fun received(item: Item, seq: Long, now: Long): List<Item> {
        val known = streams.firstOrNull { it.first.isOfSource(item) && it.first.stream == item.stream }
        if (known != null) return known.received(item, seq, now)
        val forgotten = makeRoom(item)
        val stream = OrderedStream(item, bounds)
        streams += stream
        return forgotten + stream.received(item, seq, now)
    }

    /** Gives up the gaps that have waited long enough; `Long.MAX_VALUE` gives up all gaps. */
    fun gapsPassed(now: Long): List<Item> = streams.flatMap { it.gapsPassed(now) }

    private fun makeRoom(item: Item): List<Item> {
        val forgotten = displaced(item) ?: return emptyList()
        streams.remove(forgotten)
        return forgotten.gapsPassed(Long.MAX_VALUE)
    }

    /**
     * Returns the stream to forget for a new stream of this sender: a stream of the same sender device when that device
     * has the most allowed streams, else, when there is no room, a stream of the user with the most streams. A user
     * that begins ever new streams, on any number of devices, therefore displaces no other user's streams.
     */
    private fun displaced(item: Item): OrderedStream<Item>? {
        val own = streams.filter { it.first.isOfSource(item) }
        if (own.size >= STREAMS_PER_SOURCE) return own.minByOrNull { it.lastAt }
        if (streams.size < MOST_STREAMS) return null
        val counts = mutableMapOf(item.from to 1)
        for (stream in streams) counts[stream.first.from] = (counts[stream.first.from] ?: 0) + 1
        val most = counts.values.max()
        return streams.filter { counts[it.first.from] == most }.minByOrNull { it.lastAt }
    }
}

/** A stream of a sender: delivers its items in order. */
private class OrderedStream<Item : Placed>(val first: Item, private val bounds: StreamBounds) {
    private class Held<Item>(val seq: Long, val item: Item, val at: Long)

    /** The next `seq` to deliver; null until the stream has begun. */
    private var next: Long? = null

    /** The items that came before their turn, by rising `seq`, with their times of arrival. */
    private val held = mutableListOf<Held<Item>>()

    /** The last delivered places. */
    private val delivered = ArrayDeque<Long>()

    /** The time of the last item. */
    var lastAt = 0L
        private set

    /** The time at which the first gap is given up. */
    val deadline: Long?
        get() {
            val oldest = held.minOfOrNull { it.at } ?: return null
            return oldest + if (next == null) bounds.beginning else bounds.gap
        }

    /** Returns the items to deliver now. */
    fun received(item: Item, seq: Long, now: Long): List<Item> {
        lastAt = now
        if (isCopy(seq)) return emptyList()
        // A stream begins with 1, or with 0 for clients that count from 0.
        if (next == null && seq <= 1) next = seq
        if (seq < (next ?: Long.MIN_VALUE)) {
            // The stream gave this item's place up. A late delivery is better than no delivery.
            note(seq)
            return listOf(item)
        }
        val place = held.indexOfFirst { it.seq > seq }
        held.add(if (place < 0) held.size else place, Held(seq, item, now))
        if (held.size > MOST_HELD) next = held.first().seq
        return drain()
    }

    /** Gives up the gaps before items that have waited too long. Earlier items are delivered first, in order. */
    fun gapsPassed(now: Long): List<Item> {
        val items = mutableListOf<Item>()
        while ((deadline ?: return items) <= now) {
            next = held.first().seq
            items += drain()
        }
        return items
    }

    private fun drain(): List<Item> {
        val items = mutableListOf<Item>()
        while (true) {
            val entry = held.firstOrNull() ?: return items
            if (entry.seq > (next ?: return items)) return items
            held.removeAt(0)
            note(entry.seq)
            next = entry.seq + 1
            items += entry.item
        }
    }

    private fun isCopy(seq: Long): Boolean =
        bounds.remembered > 0 && (seq in delivered || held.any { it.seq == seq })

    private fun note(seq: Long) {
        if (bounds.remembered == 0) return
        delivered.addLast(seq)
        if (delivered.size > bounds.remembered) delivered.removeFirst()
    }
}
