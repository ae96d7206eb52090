package org.bellwire.machine

import org.bellwire.BellwireException
import org.bellwire.Message
import org.bellwire.ReceiptMessage
import org.bellwire.Request
import org.bellwire.Response
import org.bellwire.jsonOf
import org.bellwire.integer
import org.bellwire.text

/*
 * Peer messages (docs/protocol.md, section 2, Peer messages). The app sees each message once, the messages of a stream
 * in order; each own message gets one receipt.
 */

/** The wait after a message's time to live before the machine asks the service for the receipt, in milliseconds. */
private const val RECEIPT_MARGIN = 3_000L

/**
 * The time in milliseconds after a message's time to live during which the machine keeps asking for the receipt; then
 * the app gets an error. The service remembers a message for 10 min and would take a later question for a new message.
 */
private const val RECEIPT_PATIENCE = 300_000

/**
 * The bound on remembered ids of shown messages. Beyond this number the oldest ids are forgotten; the service sends no
 * message for longer than 600 s.
 */
private const val SHOWN_MESSAGES = 4_096
private const val UNRECEIPTED_MESSAGES = 256

/** Seconds. */
private const val DEFAULT_TTL = 30L

/** Acks the message on arrival, even before its turn, so that the sender does not wait for other, missing messages. */
internal fun MachineState.receivedMessage(message: Message, now: Long): List<Action> {
    val ack = Action.Publish(jsonOf("type" to "ack", "messageID" to message.messageID))
    if (!shown.add(message.messageID)) return listOf(ack)
    // The set keeps the order of insertion.
    if (shown.size > SHOWN_MESSAGES) shown.remove(shown.first())
    return listOf(ack) + inOrder(message, now).map { deliver(Told.OfMessage(it)) }
}

/**
 * Follows a message that the app sends. `isUnplaced`: the message gets its place only when the message leaves the
 * device.
 */
internal fun MachineState.follow(request: Request, isUnplaced: Boolean, now: Long) {
    val messageID = request["messageID"].text
    val to = request["to"].text
    if (request.type != "message.send" || messageID == null || to == null) return
    if (unreceipted.any { it.messageID == messageID && it.to == to }) return
    val endsAt = now + (request["ttl"].integer ?: DEFAULT_TTL) * 1_000
    unreceipted += UnreceiptedMessage(request, messageID, to, isUnplaced, endsAt, endsAt + RECEIPT_MARGIN)
    // The oldest message is dropped silently. The number of simultaneous requests is bounded, and receipts come in
    // time.
    if (unreceipted.size > UNRECEIPTED_MESSAGES) unreceipted.removeAt(0)
}

/**
 * Stops following the message. Returns true when the receipt is new, and false for a repeated receipt, and for the
 * receipt of a message that the app sent before a restart.
 */
internal fun MachineState.settle(receipt: ReceiptMessage): Boolean {
    val sent = unreceipted.firstOrNull { it.messageID == receipt.messageID && it.to == receipt.to }
    return sent != null && unreceipted.remove(sent)
}

/** A response to `message.send` carries the message's state. */
internal fun MachineState.learnedOfMessage(request: Request, response: Response): List<Action> {
    val messageID = response.body.text("messageID")
    val to = request["to"].text
    val fate = response.body.text("state")
    if (request.type != "message.send" || to == null || messageID == null) return emptyList()
    if (fate == "sent") {
        // The message is still undelivered: the machine asks again only after the message's time to live.
        val sent = unreceipted.firstOrNull { it.request.id == request.id }
        if (sent != null) sent.askAt = maxOf(sent.askAt, sent.endsAt + RECEIPT_MARGIN)
        return emptyList()
    }
    if (fate != "delivered" && fate != "expired") return emptyList()
    val receipt = ReceiptMessage(messageID, to, fate, response.body.integer("time") ?: 0)
    return if (settle(receipt)) listOf(deliver(Told.OfReceipt(receipt))) else emptyList()
}

/** The service refused the message, so no receipt will come. */
internal fun MachineState.unfollow(request: Request) {
    unreceipted.removeAll { it.request.id == request.id }
}

/** Asks soon after a reconnect: the receipt may have come while the device was offline. */
internal fun MachineState.askForReceipts(now: Long) {
    for (sent in unreceipted) sent.askAt = minOf(sent.askAt, now + 1_000)
}

internal fun MachineState.receiptsDue(now: Long): List<Action> {
    if (link != Link.SUBSCRIBED) return emptyList()
    val actions = mutableListOf<Action>()
    for (sent in unreceipted.filter { it.askAt <= now }.asReversed()) {
        // The machine resends an unanswered request anyway.
        if (pending.any { it.request.id == sent.request.id }) {
            sent.askAt = now + RECEIPT_MARGIN
        } else if (now >= sent.endsAt + RECEIPT_PATIENCE) {
            unfollow(sent.request)
            val error = BellwireException("noResponse", "no receipt of message ${sent.messageID} to ${sent.to}")
            actions += deliver(Told.Error(error))
        } else {
            sent.askAt = now + (RECEIPT_MARGIN shl minOf(sent.questions, 4))
            sent.questions += 1
            actions += Action.Publish((if (sent.isUnplaced) placed(sent.request) else sent.request).json)
        }
    }
    return actions
}

/**
 * Handles the service's answer to a question that `receiptsDue` has sent. No request of the app waits for this answer.
 */
internal fun MachineState.answeredAgain(response: Response): List<Action> {
    val sent = unreceipted.firstOrNull { it.request.id == response.id } ?: return emptyList()
    return learnedOfMessage(sent.request, response)
}
