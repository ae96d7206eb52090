package org.bellwire.machine

import kotlinx.serialization.json.JsonObject
import org.bellwire.CallEvent
import org.bellwire.CallSnapshot
import org.bellwire.DownMessage
import org.bellwire.Message
import org.bellwire.ReceiptMessage
import org.bellwire.Request
import org.bellwire.Response
import org.bellwire.ServiceError
import org.bellwire.Signal
import org.bellwire.TokenWillExpire
import org.bellwire.UnknownEvent
import org.bellwire.Welcome

/**
 * All decisions of the SDK: when to publish a message, when to tell the app, when a request has failed. The Swift and
 * the web SDK have the same `ClientMachine`; the scenarios in `Tests/ClientCases` test all three.
 *
 * The machine is synchronous and deterministic. The machine does no I/O and has no clock and no randomness: each method
 * takes the time as an argument and returns actions that the caller performs in their order. Times are milliseconds of
 * any clock that never goes back; the machine never compares this clock with the service's clock (docs/protocol.md,
 * section 5).
 *
 * The owner calls `timerFired` when `nextDeadline` has come.
 */
internal class ClientMachine(user: String, device: String, configuration: MachineConfiguration = MachineConfiguration()) {
    private val state = MachineState(user, device, configuration)

    /** Returns the newest known state of the call. */
    fun snapshot(callID: String): CallSnapshot? = state.knownCall(callID)?.snapshot

    /** The time of the next `timerFired` call; null when no deadline is set. */
    val nextDeadline: Long?
        get() {
            val times = mutableListOf<Long?>(state.signalStreams.deadline, state.messageStreams.deadline)
            state.pending.mapTo(times) { it.deadline }
            state.calls.mapTo(times) { it.countdown?.until }
            if (state.link == Link.SUBSCRIBED) {
                times += listOf(state.nextPresence, state.tokenRenewal, state.silenceDeadline)
                state.pending.mapTo(times) { entry -> entry.nextSend.takeIf { entry.stage == Stage.SENDING } }
                state.calls.mapTo(times) { it.nextHeartbeat }
                state.unreceipted.mapTo(times) { it.askAt }
            }
            return times.filterNotNull().minOrNull()
        }

    /**
     * Returns for how many seconds a broker may keep a message of this device: until the app is told that the request
     * `id` has failed, at least a second. A broker may keep any other message for `requestTimeout`.
     */
    fun expiry(id: String?, now: Long): Int {
        val entry = state.pending.firstOrNull { it.request.id == id }
        val left = entry?.let { it.deadline - now } ?: state.configuration.requestTimeout
        return ((left + 999) / 1_000).coerceAtLeast(1).toInt()
    }

    /** Does all that is due at `now`. */
    fun timerFired(now: Long): List<Action> =
        state.tokenRenewalDue(now) + state.presenceDue(now) + state.requestsDue(now) + state.heartbeatsDue(now) +
            state.countdownsPassed(now) + state.signalGapsPassed(now) + state.messageGapsPassed(now) +
            state.receiptsDue(now) + state.silenceDue(now)

    /** The broker accepted a connection. `session` is random and new with each connection. */
    fun connected(session: String): List<Action> = state.connected(session)

    /** The broker answered the subscriptions of both down topics. */
    fun subscribed(now: Long): List<Action> = state.subscribed(now)

    /** The connection is lost. The machine keeps requests and calls. */
    fun disconnected(reason: String): List<Action> = state.disconnected(reason)

    /** The owner is about to replace the connection by another. The app is not told. */
    fun renewing(): Unit = state.renewing()

    /** The app disconnects. Says goodbye and fails unanswered requests. The owner then closes the connection. */
    fun loggedOut(): List<Action> = state.loggedOut()

    /**
     * The app makes a request with a new id. Exactly one `Succeed` or `Fail` follows. `isOrdered`: the request is a
     * peer message that the recipient's app gets in the order of sending; the machine sets `seq` and `stream`.
     */
    fun send(request: Request, now: Long, isOrdered: Boolean = false): List<Action> =
        state.sendRequest(request, isOrdered, now)

    /** The app sends a signal, in the form of the wire. The machine sets the signal's place in this device's stream. */
    fun signal(signal: JsonObject, now: Long): List<Action> = state.sendSignal(signal, now)

    /** A message arrived on a down topic. */
    fun received(message: DownMessage, now: Long): List<Action> {
        state.endSilence()
        return when (message) {
            is Response -> state.receivedResponse(message, now)
            is CallEvent -> state.receivedEvent(message, now)
            is UnknownEvent -> state.receivedUnknownEvent(message.callID, message.revision)
            is Welcome -> state.receivedWelcome(message, now)
            is ServiceError -> state.receivedError(message.error, now)
            is Signal -> state.receivedSignal(message, now)
            is Message -> state.receivedMessage(message, now)
            is ReceiptMessage -> state.receivedReceipt(message, now)
            is TokenWillExpire -> state.tokenWillExpire(now)
        }
    }
}
