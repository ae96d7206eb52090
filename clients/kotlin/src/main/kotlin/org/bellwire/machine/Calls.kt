package org.bellwire.machine

import org.bellwire.CallEvent
import org.bellwire.CallMode
import org.bellwire.CallSnapshot
import org.bellwire.CallState
import org.bellwire.MemberState
import org.bellwire.Response
import org.bellwire.Welcome
import org.bellwire.changesCall
import org.bellwire.jsonOf

/* Events, and the machine's knowledge of calls (docs/protocol.md, section 5). */

/**
 * The age in milliseconds after which the last news of a call no longer contradicts a welcome. The service resends
 * unacked events for 60 s. A welcome that does not list a call may be older than the last news of the call. When that
 * news is older than this age, the welcome is newer, and the call is over.
 */
private const val RESYNC_AFTER = 90_000

/** The longest invitation (section 2), in milliseconds. */
private const val LONGEST_INVITATION = 600_000L

/**
 * Whether the device has not had this revision. A lower revision with a later time is also new: the store has lost
 * writes and assigns revision numbers a second time (section 5).
 */
private fun KnownCall?.isNews(revision: Long, madeAt: Long): Boolean =
    if (this == null) revision > 0 else revision > this.revision || (this.revision > 0 && madeAt > time)

private fun ack(callID: String, revision: Long): Action =
    Action.Publish(jsonOf("type" to "ack", "callID" to callID, "revision" to revision))

internal fun MachineState.receivedEvent(event: CallEvent, now: Long): List<Action> {
    // Without an ack the service resends the event while the event is useful; by then there may be room.
    if (!hasRoom(event.call)) return listOf(Action.Refuse(event.callID))
    val known = knownCall(event.callID)
    val news = known.isNews(event.revision, event.time)
    // Acks are cumulative: the service would answer a lower ack by resending news that the device already has.
    // Revisions below 0 do not exist, and the service would refuse such an ack.
    val acked = if (news) event.revision else maxOf(event.revision, known?.revision ?: 0, 0)
    val actions = mutableListOf(ack(event.callID, acked))
    actions += remember(event.call, event.revision, event.time, event.expiresIn, now)
    if (news) actions += deliver(Told.Event(event))
    return actions
}

/** Acks an event that this version cannot read, so that the service does not resend the event. */
internal fun MachineState.receivedUnknownEvent(callID: String, revision: Long): List<Action> =
    listOf(ack(callID, maxOf(revision, knownCall(callID)?.revision ?: 0, 0)))

/**
 * Learns a call's state from a response. The machine will ignore later events up to that revision, so the machine tells
 * the app here.
 */
internal fun MachineState.learnedOfCall(response: Response, now: Long): List<Action> {
    val call = response.call ?: return emptyList()
    if (!hasRoom(call)) return emptyList()
    val news = knownCall(call.callID).isNews(call.revision, response.time)
    val actions = remember(call, call.revision, response.time, null, now)
    return if (news) actions + deliver(Told.Snapshot(call)) else actions
}

/**
 * Stores the state of a call from a message. `revision` is 0 for a welcome. `reference` is the creation time of the
 * revision, or of the welcome, by the service's clock. On this device's clock that moment is `now` or earlier, so an
 * expiry that is computed from `reference` can only be too late.
 */
private fun MachineState.remember(
    call: CallSnapshot,
    revision: Long,
    reference: Long,
    expiresIn: Long?,
    now: Long,
): List<Action> {
    val actions = mutableListOf<Action>()
    var known = knownCall(call.callID)
    if (known == null) {
        // The table is full and the call is over, so the machine does not store the call.
        actions += makeRoom(call) ?: return emptyList()
        known = KnownCall(call, now, connection)
        calls += known
    }
    val isWelcome = revision == 0L
    val goesBack = call.revision < known.snapshot.revision
    val isNewest = isWelcome || !goesBack || reference > known.asOf
    // When the machine has given up a call locally, a resend does not make the call ring again. Newer events and
    // welcomes do.
    val news = known.isNews(revision, reference)
    if (!isWelcome && news) {
        known.revision = revision
        known.time = reference
    }
    // The store has lost revisions, and will assign the same numbers again.
    if (isWelcome && goesBack) {
        known.revision = 0
        known.time = 0
    }
    known.heardAt = now
    known.connection = connection
    if (!isNewest) return actions
    known.snapshot = call
    known.asOf = reference
    if (isWelcome || news) known.isLive = isLiveFor(call)
    known.countdown = countdown(known, reference, expiresIn, now)
    known.nextHeartbeat = if (sendsHeartbeats(known)) known.nextHeartbeat ?: (now + heartbeatInterval) else null
    return actions
}

// MARK: Resynchronisation

/** Whether the last news of the call are older than the list in a welcome that arrives now. */
private fun MachineState.isOutdated(known: KnownCall, now: Long): Boolean =
    known.connection != connection || now - known.heardAt > RESYNC_AFTER

/**
 * Whether the app has an unanswered request about this call. A welcome may already show the request's success, but the
 * app is told the response first.
 */
private fun MachineState.isAsked(callID: String): Boolean =
    pending.any { it.request.callID == callID && changesCall(it.request.type) }

/** Applies the held list entry of a call when the last request about the call is answered. */
internal fun MachineState.releaseHeld(callID: String, now: Long): List<Action> {
    if (isAsked(callID)) return emptyList()
    val (call, reference) = heldCalls.remove(callID) ?: return emptyList()
    return listedCall(call, reference, now)
}

private fun MachineState.listedCall(call: CallSnapshot, reference: Long, now: Long): List<Action> {
    val known = knownCall(call.callID)
    val news = known == null || !known.isLive || call.revision != known.snapshot.revision
    // Two coordinators may send their lists in the wrong order, so a list that is older than the last news revives no
    // call. On another connection, or long after the last news, the list is not older: the store has lost data.
    val isOlder = known != null && call.revision < known.snapshot.revision && !isOutdated(known, now)
    if (isOlder || !hasRoom(call)) return emptyList()
    val actions = remember(call, 0, reference, null, now)
    return if (news) actions + deliver(Told.Snapshot(call)) else actions
}

/**
 * Tells the app of listed calls that are new to the app. Calls that the service does not list are over, and the service
 * does not send their events to this session, so the machine tells the app once.
 */
internal fun MachineState.resynchronised(welcome: Welcome, now: Long): List<Action> {
    val actions = mutableListOf<Action>()
    for (call in welcome.calls) {
        if (isAsked(call.callID)) {
            heldCalls[call.callID] = call to welcome.serverTime
        } else {
            actions += listedCall(call, welcome.serverTime, now)
        }
    }
    // An incomplete list says nothing about unlisted calls.
    if (welcome.omittedCalls > 0) return actions
    val listed = welcome.calls.mapTo(HashSet()) { it.callID }
    val invited = pending.filter { it.request.type == "call.invite" }.mapTo(HashSet()) { it.request.callID }
    for (known in calls) {
        val callID = known.snapshot.callID
        if (known.isLive && callID !in listed && isOutdated(known, now) && callID !in invited) {
            actions += over(known, Told.Gone(known.snapshot))
        }
    }
    return actions
}

/** The service does not know a call that the machine considered live. */
internal fun MachineState.callNotFound(callID: String): List<Action> {
    val known = knownCall(callID)?.takeIf { it.isLive } ?: return emptyList()
    return listOf(over(known, Told.Gone(known.snapshot)))
}

private fun over(known: KnownCall, told: Told): Action {
    known.isLive = false
    known.countdown = null
    known.nextHeartbeat = null
    return deliver(told)
}

// MARK: Countdown

/** Returns the countdown of an invitation that rings here, or that this user made and no invitee has answered. */
private fun MachineState.countdown(known: KnownCall, reference: Long, expiresIn: Long?, now: Long): Countdown? {
    val call = known.snapshot
    val own = call.member(user)
    if (!known.isLive || own == null) return null
    val isRinging = own.state.isPending
    var expiresAt = own.expiresAt
    if (!isRinging) {
        val pending = call.members.filter { it.state.isPending }
        if (call.state != CallState.RINGING || own.device != device || pending.isEmpty()) return null
        expiresAt = pending.mapNotNull { it.expiresAt }.maxOrNull()
    }
    val computed = if (expiresAt == null) call.timeout * 1_000 else expiresAt - reference
    val left = if (isRinging) expiresIn ?: computed else computed
    var until = now + left.coerceIn(0, LONGEST_INVITATION) + configuration.ringingMargin
    // A message can only overstate the remaining time, by its own age. The earliest end is therefore the best.
    known.countdown?.let { if (it.expiresAt == expiresAt) until = minOf(until, it.until) }
    return Countdown(expiresAt, until)
}

internal fun MachineState.countdownsPassed(now: Long): List<Action> =
    calls.filter { (it.countdown?.until ?: Long.MAX_VALUE) <= now }.map { over(it, Told.InvitationExpired(it.snapshot)) }

// MARK: Heartbeats

/**
 * Whether this device must send heartbeats. In advanced mode the service considers a silent member gone (section 3).
 */
private fun MachineState.sendsHeartbeats(known: KnownCall): Boolean {
    val own = known.snapshot.member(user)
    return known.isLive && known.snapshot.mode == CallMode.ADVANCED && own?.state == MemberState.ACCEPTED &&
        own.device == device
}

internal fun MachineState.setHeartbeatInterval(seconds: Long, now: Long) {
    heartbeatInterval = seconds.coerceIn(1, 3_600) * 1_000
    for (known in calls) known.nextHeartbeat = known.nextHeartbeat?.coerceAtMost(now + heartbeatInterval)
}

internal fun MachineState.heartbeatsDue(now: Long): List<Action> {
    if (link != Link.SUBSCRIBED) return emptyList()
    return calls.filter { (it.nextHeartbeat ?: Long.MAX_VALUE) <= now }.map { known ->
        known.nextHeartbeat = now + heartbeatInterval
        Action.Publish(jsonOf("type" to "call.heartbeat", "callID" to known.snapshot.callID))
    }
}
