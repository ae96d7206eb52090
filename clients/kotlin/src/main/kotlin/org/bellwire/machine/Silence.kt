package org.bellwire.machine

/*
 * A broker that answers pings may deliver nothing to this device. The device then leaves its connection
 * (docs/protocol.md, section 1, Several brokers).
 *
 * All brokers are silent while no coordinator serves, and another broker does not help then. So the waits double with
 * each connection that is left, and a device without a request waits longer: such devices are many, and no person
 * waits.
 */

/** The first and the longest wait for a message after a request, in milliseconds. */
private const val FIRST_WAIT = 8_000L
private const val LONGEST_WAIT = 64_000L

/** The first and the longest wait for a message after presence, in milliseconds. */
private const val FIRST_PRESENCE_WAIT = 64_000L
private const val LONGEST_PRESENCE_WAIT = 1_024_000L

/**
 * A timer that fires later than this has stood still with the device, in milliseconds: messages may have come meanwhile
 * that the device has not read.
 */
private const val LATE_TIMER = 2_000L

private fun MachineState.wait(first: Long, longest: Long): Long =
    (first shl minOf(leftInSilence, 16)).coerceAtMost(longest)

/** The time at which to leave the connection; null when nothing is awaited. */
internal val MachineState.silenceDeadline: Long?
    get() = listOfNotNull(
        requestedAt?.let { it + wait(FIRST_WAIT, LONGEST_WAIT) },
        presenceSentAt?.let { it + wait(FIRST_PRESENCE_WAIT, LONGEST_PRESENCE_WAIT) },
    ).minOrNull()

/** The device has sent a request. */
internal fun MachineState.awaitResponse(now: Long) {
    requestedAt = requestedAt ?: now
}

/** The device has sent presence, which the service answers with a welcome. */
internal fun MachineState.awaitWelcome(now: Long) {
    presenceSentAt = presenceSentAt ?: now
}

/** The watch begins anew, on another connection. */
internal fun MachineState.restartSilence() {
    requestedAt = null
    presenceSentAt = null
}

/** A message came. */
internal fun MachineState.endSilence() {
    restartSilence()
    leftInSilence = 0
}

internal fun MachineState.silenceDue(now: Long): List<Action> {
    val deadline = silenceDeadline ?: return emptyList()
    if (link != Link.SUBSCRIBED || deadline > now) return emptyList()
    if (now - deadline > LATE_TIMER) {
        requestedAt = requestedAt?.let { now }
        presenceSentAt = presenceSentAt?.let { now }
        return emptyList()
    }
    restartSilence()
    leftInSilence += 1
    return listOf(Action.RenewSession)
}
