package org.bellwire.machine

/*
 * A broker that answers pings may deliver nothing to this device. The device then leaves its connection
 * (docs/protocol.md, section 1, Several brokers).
 */

/**
 * The wait for a message, in milliseconds. The wait doubles with each further connection that is left, up to 64 s,
 * because another broker does not help while no coordinator serves: all brokers are silent then.
 */
private const val FIRST_WAIT = 8_000L
private const val LONGEST_WAIT = 64_000L

/** The time at which to leave the connection. */
internal val MachineState.silenceDeadline: Long?
    get() = silentSince?.let { it + (FIRST_WAIT shl minOf(leftInSilence, 32)).coerceAtMost(LONGEST_WAIT) }

/** The device has sent a request or presence, which the service answers. */
internal fun MachineState.awaitAnswer(now: Long) {
    if (silentSince == null) silentSince = now
}

/** A message came. */
internal fun MachineState.endSilence() {
    silentSince = null
    leftInSilence = 0
}

internal fun MachineState.silenceDue(now: Long): List<Action> {
    if (link != Link.SUBSCRIBED || (silenceDeadline ?: Long.MAX_VALUE) > now) return emptyList()
    silentSince = null
    leftInSilence += 1
    return listOf(Action.RenewSession)
}
