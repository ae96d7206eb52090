package org.bellwire.machine

import kotlinx.serialization.json.JsonPrimitive
import org.bellwire.Message
import org.bellwire.Request
import org.bellwire.integer
import org.bellwire.text

/* Peer messages in the order of their sender (docs/protocol.md, section 2, Peer messages). */

/**
 * The service resends a message whose first send was lost after 1, 2, 4, 8 s, but never an expired message. An unknown
 * stream may have begun before the app was restarted; the missing messages then are on their way, or never come. The
 * machine recognizes copies by `messageID`, so a sender that uses a `seq` twice has sent two messages.
 */
internal val messageBounds = StreamBounds(beginning = 1_000, gap = 10_000, remembered = 0)

/** Returns the messages for the app after the first arrival of a message. */
internal fun MachineState.inOrder(message: Message, now: Long): List<Message> {
    val seq = message.seq
    return if (message.stream == null || seq == null) listOf(message) else messageStreams.received(message, seq, now)
}

/** Gives up the gaps that have waited long enough. */
internal fun MachineState.messageGapsPassed(now: Long): List<Action> =
    messageStreams.gapsPassed(now).map { deliver(Told.OfMessage(it)) }

/**
 * Gives an ordered message its place when the request leaves for the first time. A message that never left, for lack of
 * a connection, therefore leaves no gap.
 */
internal fun MachineState.takePlace(entry: PendingRequest) {
    if (!entry.isUnplaced) return
    entry.isUnplaced = false
    entry.request = placed(entry.request)
}

/**
 * The largest distance between the places of a recipient's messages and the oldest unanswered message. The distance is
 * below the number of messages that a receiver holds per stream; a receiver that holds more gives the first gap up.
 */
private const val WINDOW = 32

/** Whether the request may leave: an ordered message waits while the window of its recipient is full. */
internal fun MachineState.hasPlace(entry: PendingRequest): Boolean {
    val to = entry.request["to"].text
    if (!entry.isUnplaced || entry.request.type != "message.send" || to == null) return true
    val others = pending.filter { it.request.type == "message.send" && it.request["to"].text == to }
    if (others.takeWhile { it !== entry }.any { it.isUnplaced && it.stage == Stage.QUEUED }) return false
    val oldest = others.filter { !it.isUnplaced }.mapNotNull { places.seqOf(it.request) }.minOrNull() ?: return true
    return places.nextSeq(to) - oldest < WINDOW
}

/**
 * Returns the message with its place. A message without a receipt keeps its place when the app sends the message again.
 */
internal fun MachineState.placed(request: Request): Request {
    val to = request["to"].text
    if (request.type != "message.send" || to == null) return request
    val sent = unreceipted.firstOrNull { it.messageID == request["messageID"].text && it.to == to }
    val place = sent?.place ?: places.next(to) ?: return request
    val fields = arrayOf("stream" to JsonPrimitive(place.stream), "seq" to JsonPrimitive(place.seq))
    if (sent != null) {
        sent.isUnplaced = false
        sent.request = sent.request.with(*fields)
    }
    return request.with(*fields)
}

/** The place of a message among all messages to its recipient. */
internal class MessagePlace(val stream: String, val seq: Long)

private val Request.place: MessagePlace?
    get() = this["stream"].text?.let { stream -> this["seq"].integer?.let { MessagePlace(stream, it) } }

/** Null before the message has left. */
private val UnreceiptedMessage.place: MessagePlace? get() = if (isUnplaced) null else request.place

/**
 * The bound on recipients with remembered places. Beyond this number the machine forgets the recipient with the longest
 * time since the last message.
 */
private const val RECIPIENTS = 256

/** The next place of an ordered message, per recipient. Without a stream name the machine assigns no places. */
internal class MessagePlaces(private val stream: String?) {
    /** The recipient of the latest message is last in this map. */
    private val runs = LinkedHashMap<String, MessagePlace>()

    /**
     * The number of recipients forgotten so far. A message to a forgotten recipient begins a stream of a new name,
     * which counts from 1.
     */
    private var forgotten = 0

    fun next(user: String): MessagePlace? {
        if (stream == null) return null
        if (user !in runs && runs.size >= RECIPIENTS) {
            runs.remove(runs.keys.first())
            forgotten += 1
        }
        val place = runs.remove(user) ?: MessagePlace(if (forgotten == 0) stream else "$stream-$forgotten", 1)
        runs[user] = MessagePlace(place.stream, place.seq + 1)
        return place
    }

    /** Returns the `seq` of the next message to the user. */
    fun nextSeq(user: String): Long = runs[user]?.seq ?: 1

    /** Returns the place of a message in the recipient's current stream; null for a message of no current stream. */
    fun seqOf(request: Request): Long? {
        val run = runs[request["to"].text]
        return request.place?.takeIf { run != null && it.stream == run.stream }?.seq
    }

    /**
     * Takes back the place of a refused message. The next message gets the place when no later message was sent; else
     * the recipient waits for the place until the gap is given up.
     */
    fun takeBack(request: Request) {
        val to = request["to"].text ?: return
        val seq = seqOf(request) ?: return
        val run = runs[to] ?: return
        if (run.seq == seq + 1) runs[to] = MessagePlace(run.stream, seq)
    }
}
