package org.bellwire.machine

import kotlinx.serialization.json.JsonObject
import org.bellwire.Signal
import org.bellwire.jsonOf
import org.bellwire.text

/*
 * Signals within a call (docs/protocol.md, section 2, Signals). The device sends each signal once and delivers received
 * signals in the order of `seq`.
 */

/** The time that a signal waits for a connection, in milliseconds; later the signal is useless. */
private const val SIGNAL_LIFE = 5_000

/** The bound on signals that wait for a connection. */
private const val WAITING_SIGNALS = 256

/**
 * A signal is useful at once or never, so the waits are short. Senders send each signal once; a copy comes from the
 * broker and is recognized by its `seq`.
 */
internal val signalBounds = StreamBounds(beginning = 500, gap = 500, remembered = 256)

internal fun MachineState.sendSignal(asked: JsonObject, now: Long): List<Action> {
    val callID = asked.text("callID") ?: return emptyList()
    val seq = nextSignal[callID] ?: 1
    if (nextSignal.size >= configuration.knownCalls && seq == 1L) forgetSignalPlaces()
    nextSignal[callID] = seq + 1
    val signal = JsonObject(asked + jsonOf("seq" to seq, "stream" to configuration.signalStream))
    if (link == Link.SUBSCRIBED) return listOf(Action.Publish(signal))
    if (waitingSignals.size == WAITING_SIGNALS) waitingSignals.removeFirst()
    waitingSignals.addLast(signal to now + SIGNAL_LIFE)
    return emptyList()
}

/**
 * Forgets the counts of calls that are over. A receiver would take signals that count from 1 again for duplicates, but
 * a call that is over has no more signals.
 */
private fun MachineState.forgetSignalPlaces() {
    nextSignal.keys.retainAll { callID -> calls.any { it.snapshot.callID == callID && it.isLive } }
}

/** Sends the signals that waited for the connection and are still useful. */
internal fun MachineState.sendWaitingSignals(now: Long): List<Action> {
    val waiting = waitingSignals.toList()
    waitingSignals.clear()
    return waiting.filter { (_, until) -> until > now }.map { (signal, _) -> Action.Publish(signal) }
}

internal fun MachineState.receivedSignal(signal: Signal, now: Long): List<Action> {
    val seq = signal.seq ?: return listOf(deliver(Told.OfSignal(signal)))
    return signalStreams.received(signal, seq, now).map { deliver(Told.OfSignal(it)) }
}

/** Gives up the gaps that have waited long enough. */
internal fun MachineState.signalGapsPassed(now: Long): List<Action> =
    signalStreams.gapsPassed(now).map { deliver(Told.OfSignal(it)) }
