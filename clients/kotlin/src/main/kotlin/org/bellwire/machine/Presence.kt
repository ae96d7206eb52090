package org.bellwire.machine

import org.bellwire.BellwireException
import org.bellwire.Welcome
import org.bellwire.jsonOf

/* Connections and presence (docs/protocol.md, section 1). */

/**
 * The shortest time between two corrections, in milliseconds. Two connections that claim to be the same device would
 * otherwise answer each other's welcomes without end.
 */
private const val CORRECTION_INTERVAL = 1_000

/**
 * The shortest time between two reconnects because of a session that is over, in milliseconds. The device publishes its
 * presence again at the latest after this time, and the service then answers again.
 */
private const val SESSION_PAUSE = 8_000

/** The number of this client's sessions that the machine remembers. */
private const val SESSIONS_REMEMBERED = 16

private fun MachineState.resetPresence() {
    presenceSends = 0
    isAwaitingWelcome = false
    nextPresence = null
    lastCorrection = null
}

internal fun MachineState.connected(session: String): List<Action> {
    val actions = if (isRenewing) emptyList() else disconnected("replaced by a new connection")
    isRenewing = false
    connection += 1
    heldCalls.clear()
    link = Link.CONNECTED
    restartSilence()
    this.session = session
    ownSessions.addLast(session)
    if (ownSessions.size > SESSIONS_REMEMBERED) ownSessions.removeFirst()
    return actions
}

/**
 * The broker answered the subscriptions of both down topics. From now on the device misses no message, so the machine
 * publishes presence and then the waiting requests.
 */
internal fun MachineState.subscribed(now: Long): List<Action> {
    if (link != Link.CONNECTED) return emptyList()
    link = Link.SUBSCRIBED
    resetPresence()
    isAwaitingWelcome = true
    askForReceipts(now)
    return publishPresence(now) + resendAll(now) + sendWaitingSignals(now)
}

internal fun MachineState.disconnected(reason: String): List<Action> {
    link = Link.OFFLINE
    isRenewing = false
    tokenRenewal = null
    resetPresence()
    if (!isOnline) return emptyList()
    isOnline = false
    return listOf(deliver(Told.Offline(reason)))
}

internal fun MachineState.loggedOut(): List<Action> {
    val actions = mutableListOf<Action>()
    if (link == Link.SUBSCRIBED) {
        actions += Action.PublishPresence(jsonOf("online" to false, "reason" to "logout", "session" to session))
    }
    // The machine has acked the waiting messages, so the app must get them now.
    actions += messageGapsPassed(Long.MAX_VALUE)
    val error = BellwireException("disconnected", "the client disconnected before the response came")
    for (entry in pending) actions += Action.Fail(entry.request.id, error)
    pending.clear()
    link = Link.OFFLINE
    isOnline = false
    return actions
}

/**
 * The owner is about to replace the connection by another with a new token. The device does not go offline for the new
 * token, and the app is told only when the next connection fails.
 */
internal fun MachineState.renewing() {
    link = Link.OFFLINE
    resetPresence()
    isRenewing = true
}

internal fun MachineState.presenceDue(now: Long): List<Action> {
    if (link != Link.SUBSCRIBED || (nextPresence ?: Long.MAX_VALUE) > now) return emptyList()
    if (!isAwaitingWelcome) {
        // A renewal is answered and repeated like the first presence message: without repetition, the loss of a single
        // message would let the presence expire.
        isAwaitingWelcome = true
        presenceSends = 0
    }
    return publishPresence(now)
}

private fun MachineState.publishPresence(now: Long): List<Action> {
    awaitWelcome(now)
    presenceSends += 1
    nextPresence = now + resendDelay(presenceSends)
    return listOf(Action.PublishPresence(jsonOf("online" to true, "session" to session)))
}

internal fun MachineState.receivedWelcome(welcome: Welcome, now: Long): List<Action> {
    if (link != Link.SUBSCRIBED) return emptyList()
    if (welcome.session != session) return welcomedAnotherSession(now)
    isAwaitingWelcome = false
    presenceSends = 0
    // The device renews presence even while the device is busy: each welcome is a chance to learn of a call that is
    // over. The pause is half of the lease if the service sends the lease. Any value from the service is clamped to a
    // pause between 1 s and an hour.
    nextPresence = now + (welcome.presenceLease?.let { it.coerceIn(2, 7_200) * 500 } ?: configuration.presenceRenewal)
    setTokenRenewal(welcome, now)
    setHeartbeatInterval(welcome.heartbeatInterval, now)
    val actions = mutableListOf(deliver(Told.OfWelcome(welcome)))
    if (!isOnline) {
        isOnline = true
        actions += deliver(Told.Online)
    }
    return actions + resynchronised(welcome, now)
}

/**
 * Handles an error of the service. A `sessionOver` error names the session of another connection, or of this
 * connection when the session's end overtook its beginning.
 */
internal fun MachineState.receivedError(error: BellwireException, now: Long): List<Action> {
    if (error.code != "sessionOver") return listOf(deliver(Told.Error(error)))
    if (link != Link.SUBSCRIBED || error.session != session) return emptyList()
    // The beginning of a former session of this client came late, from a broker that stood still.
    val isOwn = error.newerSession != null && error.newerSession in ownSessions
    if (error.reason == "takenOver" && !isOwn) return listOf(Action.EndTakenOver)
    // Reconnects have a minimum pause, whatever the service sends. After the pause the device publishes presence, and
    // the service answers again.
    val last = lastSessionRenewal
    if (last != null && now - last < SESSION_PAUSE) {
        isAwaitingWelcome = true
        presenceSends = 0
        nextPresence = last + SESSION_PAUSE
        return emptyList()
    }
    lastSessionRenewal = now
    return listOf(Action.RenewSession)
}

/** The service names another current session, so the device publishes its own session again. */
private fun MachineState.welcomedAnotherSession(now: Long): List<Action> {
    isAwaitingWelcome = true
    presenceSends = 0
    val last = lastCorrection
    if (last != null && now - last < CORRECTION_INTERVAL) {
        nextPresence = last + CORRECTION_INTERVAL
        return emptyList()
    }
    lastCorrection = now
    return publishPresence(now)
}
