package org.bellwire.machine

import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import org.bellwire.BellwireException
import org.bellwire.CallState
import org.bellwire.ReceiptMessage
import org.bellwire.Request
import org.bellwire.Response
import org.bellwire.changesCall

/*
 * Requests. The machine resends a request under the same id until its response or its time limit, and sends the
 * requests of a call one at a time (docs/protocol.md, section 2). A request that begins a call waits for the responses
 * to requests that leave another call.
 */

private val PendingRequest.isInvite get() = request.type == "call.invite"
private val PendingRequest.isCancel get() = request.type == "call.cancel"

private fun PendingRequest.isOfCall(other: PendingRequest) =
    request.callID != null && request.callID == other.request.callID

private val leavingTypes = setOf("call.quit", "call.end", "call.reject", "call.cancel")

/**
 * Whether a request waits for the response to an earlier request. Two coordinators may serve two requests of a device
 * at the same time. The later request would then be decided on the state before the earlier request, as an invitation
 * in a call that the user has just left.
 */
private fun PendingRequest.waitsFor(earlier: PendingRequest): Boolean {
    if (!changesCall(request.type) || !changesCall(earlier.request.type)) return false
    // A cancel may overtake its invitation: the service remembers the cancel.
    if (isOfCall(earlier)) return !(isCancel && earlier.isInvite)
    return beginsCall && earlier.request.type in leavingTypes
}

/** Whether a waiting request may leave: no earlier request holds it back, and the window of its recipient has room. */
private fun MachineState.mayLeave(entry: PendingRequest): Boolean =
    pending.takeWhile { it !== entry }.none { entry.waitsFor(it) } && hasPlace(entry)

internal fun MachineState.sendRequest(request: Request, isOrdered: Boolean, now: Long): List<Action> {
    fun refuse(message: String) = listOf(Action.Fail(request.id, BellwireException("tooManyRequests", message)))
    if (pending.size >= configuration.requests) return refuse("${pending.size} requests are unanswered")
    val entry = PendingRequest(request, now + configuration.requestTimeout, now, isOrdered)
    if (!mayBegin(entry)) return refuse("this device is in ${configuration.knownCalls} calls")
    follow(request, isOrdered, now)
    val ahead = pending.count { changesCall(it.request.type) && changesCall(request.type) && entry.isOfCall(it) }
    if (ahead > configuration.queuedPerCall) return refuse("$ahead requests of this call are unanswered")
    pending += entry
    return if (mayLeave(entry)) start(entry, now) else emptyList()
}

private fun MachineState.start(entry: PendingRequest, now: Long): List<Action> {
    entry.stage = Stage.SENDING
    // Without a connection, `resendAll` sends the request as soon as the response can arrive.
    if (link != Link.SUBSCRIBED) {
        entry.sends = 0
        entry.nextSend = now
        return emptyList()
    }
    entry.sends = 1
    entry.nextSend = now + resendDelay(1)
    takePlace(entry)
    awaitResponse(now)
    return listOf(Action.Publish(entry.request.json))
}

/** Sends all unanswered requests on a new connection. */
internal fun MachineState.resendAll(now: Long): List<Action> =
    pending.filter { it.stage == Stage.SENDING }.flatMap { entry ->
        if (hasPlace(entry)) {
            start(entry, now)
        } else {
            entry.stage = Stage.QUEUED
            emptyList()
        }
    }

internal fun MachineState.requestsDue(now: Long): List<Action> {
    // The last requests fail first, so that a failed request does not start a request that fails at the same time.
    val actions = pending.filter { it.deadline <= now }.asReversed()
        .flatMap { failed(it, it.refusal ?: noResponse(it), now) }.toMutableList()
    if (link != Link.SUBSCRIBED) return actions
    for (entry in pending.filter { it.stage == Stage.SENDING && it.nextSend <= now }) {
        entry.sends += 1
        entry.nextSend = now + resendDelay(entry.sends)
        awaitResponse(now)
        actions += Action.Publish(entry.request.json)
    }
    return actions
}

private fun MachineState.noResponse(entry: PendingRequest): BellwireException {
    val cause = when {
        link == Link.OFFLINE -> "the broker cannot be reached"
        entry.stage == Stage.QUEUED -> "it waited for the answer to an earlier request"
        else -> "the service did not answer"
    }
    return BellwireException("noResponse", "no response within ${configuration.requestTimeout} ms: $cause")
}

internal fun MachineState.receivedResponse(response: Response, now: Long): List<Action> {
    val entry = pending.firstOrNull { it.request.id == response.id }
    if (response.error != null) return entry?.let { refused(it, response.error, now) } ?: emptyList()
    val news = learnedOfCall(response, now)
    if (entry == null) return if (response.call != null) news else answeredAgain(response)
    val actions = succeeded(entry, response, now)
    return actions + if (response.call != null) news else learnedOfMessage(entry.request, response)
}

private fun MachineState.refused(entry: PendingRequest, error: BellwireException, now: Long): List<Action> {
    val callID = entry.request.callID
    if (error.code == "unavailable" || error.code == "rateLimited") {
        if (entry.stage != Stage.SENDING) return emptyList()
        val wait = minOf(error.retryAfter ?: 0, configuration.requestTimeout)
        entry.refusal = error
        entry.nextSend = now + maxOf(resendDelay(entry.sends), wait)
        return emptyList()
    }
    if (error.code != "callNotFound" || callID == null) return failed(entry, error, now)
    if (!entry.isCancel) return failed(entry, error, now) + callNotFound(callID)
    val earlier = pending.takeWhile { it !== entry }
    if (earlier.any { it.isInvite && entry.isOfCall(it) }) {
        entry.refusal = error
        entry.stage = Stage.AWAITING_INVITE
        return emptyList()
    }
    val call = knownCall(callID)?.snapshot
    if (call?.state == CallState.ENDED) {
        // The response to the invite came first and shows that the cancel has worked.
        val response = Response(entry.request.id, call = call, time = call.endedAt ?: call.createdAt)
        return succeeded(entry, response, now)
    }
    return failed(entry, error, now)
}

private fun MachineState.succeeded(entry: PendingRequest, response: Response, now: Long): List<Action> =
    completed(entry, Action.Succeed(entry.request.id, response), response, now)

private fun MachineState.failed(entry: PendingRequest, error: BellwireException, now: Long): List<Action> {
    // After `noResponse`, a request that has left may still be served.
    if (error.code != "noResponse" || entry.sends == 0) {
        unfollow(entry.request)
        places.takeBack(entry.request)
    }
    return completed(entry, Action.Fail(entry.request.id, error), null, now)
}

private fun MachineState.completed(
    entry: PendingRequest,
    outcome: Action,
    response: Response?,
    now: Long,
): List<Action> {
    if (!pending.remove(entry)) return emptyList()
    val actions = mutableListOf(outcome)
    val callID = entry.request.callID
    if (entry.isInvite && callID != null) actions += inviteCompleted(callID, response, now)
    // Starts the requests that waited for this response, in the order of the app's calls.
    for (waiting in pending.toList()) {
        if (waiting.stage == Stage.QUEUED && mayLeave(waiting)) actions += start(waiting, now)
    }
    if (changesCall(entry.request.type) && callID != null) actions += releaseHeld(callID, now)
    return actions
}

/** A receipt may overtake the response and carries the final state. The app is told of its request's success first. */
internal fun MachineState.receivedReceipt(receipt: ReceiptMessage, now: Long): List<Action> {
    val sent = unreceipted.firstOrNull { it.messageID == receipt.messageID && it.to == receipt.to } ?: return emptyList()
    val entry = pending.firstOrNull { it.request.id == sent.request.id }
    val body = buildJsonObject {
        put("messageID", JsonPrimitive(receipt.messageID))
        put("time", JsonPrimitive(receipt.time))
        put("state", JsonPrimitive(receipt.state))
    }
    val response = Response(sent.request.id, time = receipt.time, body = body)
    val answered = entry?.let { succeeded(it, response, now) } ?: emptyList()
    settle(receipt)
    return answered + deliver(Told.OfReceipt(receipt))
}

/** A cancel that overtook its invite now learns the call's state. */
private fun MachineState.inviteCompleted(callID: String, response: Response?, now: Long): List<Action> {
    val entry = pending.firstOrNull { it.request.callID == callID && it.stage == Stage.AWAITING_INVITE }
        ?: return emptyList()
    if (response?.call != null && response.call.state != CallState.ENDED) return start(entry, now)
    pending.remove(entry)
    val id = entry.request.id
    if (response != null) {
        return listOf(Action.Succeed(id, Response(id, call = response.call, time = response.time, body = response.body)))
    }
    return listOf(Action.Fail(id, entry.refusal ?: BellwireException("callNotFound", "the call was not created")))
}
