package org.bellwire.machine

import org.bellwire.CallSnapshot
import org.bellwire.CallState
import org.bellwire.MemberState
import org.bellwire.changesCall

/*
 * The table of known calls and its bound. Any user may ring this device, so other users' calls must not displace the
 * device's own calls: a live call in which the device takes part is never forgotten.
 */

internal fun MachineState.knownCall(callID: String): KnownCall? = calls.firstOrNull { it.snapshot.callID == callID }

internal fun MachineState.isLiveFor(call: CallSnapshot): Boolean {
    val own = call.member(user)?.state ?: return false
    return call.state != CallState.ENDED && (own == MemberState.ACCEPTED || own.isPending)
}

/**
 * The importance of a call to this device, in the order of forgetting; `OWN` is never forgotten. `OVER`: the entry only
 * prevents a second ringing. `ELSEWHERE`: the user is in the call on another device. `RINGING`: calls of the inviter
 * with the most ringing calls are forgotten first. `OWN`: the device makes the call or takes part, or is about to.
 */
private enum class Standing { OVER, ELSEWHERE, RINGING, OWN }

private fun MachineState.standing(call: CallSnapshot, isLive: Boolean): Standing {
    val own = call.member(user)
    return when {
        !isLive || own == null -> Standing.OVER
        // The app has just asked to change this call.
        pending.any { it.request.callID == call.callID && changesCall(it.request.type) } -> Standing.OWN
        own.state.isPending -> Standing.RINGING
        own.device == device -> Standing.OWN
        else -> Standing.ELSEWHERE
    }
}

/**
 * Whether the machine may store the call. When false, the machine would have to forget the call at once, so the machine
 * must ignore the call.
 */
internal fun MachineState.hasRoom(call: CallSnapshot): Boolean = !isLiveFor(call) || room(call) != Room.None

private val beginningTypes = setOf("call.invite", "call.accept", "call.join")

/** Whether the device takes part in the call after this request. */
internal val PendingRequest.beginsCall: Boolean get() = request.type in beginningTypes

/**
 * Whether the app may begin another call. The table never forgets own calls, so the bound is the size of the table.
 * Other users' calls do not count.
 */
internal fun MachineState.mayBegin(entry: PendingRequest): Boolean {
    fun isNew(entry: PendingRequest) = entry.request.callID.let { it == null || knownCall(it) == null }
    if (!entry.beginsCall || !isNew(entry)) return true
    val own = calls.count { standing(it.snapshot, it.isLive) == Standing.OWN }
    return own + pending.count { it.beginsCall && isNew(it) } < configuration.knownCalls
}

/** Forgets another call if needed, and tells the app if that call was live. Returns null when there is no room. */
internal fun MachineState.makeRoom(call: CallSnapshot): List<Action>? = when (val room = room(call)) {
    Room.Free -> emptyList()
    Room.None -> null
    is Room.After -> {
        calls.remove(room.forgetting)
        if (room.forgetting.isLive) listOf(deliver(Told.Gone(room.forgetting.snapshot))) else emptyList()
    }
}

/** Whether there is room for a call, or room after another call is forgotten. */
private sealed interface Room {
    object Free : Room
    object None : Room
    class After(val forgetting: KnownCall) : Room
}

private fun MachineState.room(call: CallSnapshot): Room {
    if (calls.size < configuration.knownCalls || knownCall(call.callID) != null) return Room.Free
    val standings = calls.map { standing(it.snapshot, it.isLive) }
    val added = standing(call, isLiveFor(call))
    fun ofStanding(standing: Standing) = calls.filterIndexed { index, _ -> standings[index] == standing }
    for (dispensable in listOf(Standing.OVER, Standing.ELSEWHERE)) {
        // The call with the longest time since its last news.
        ofStanding(dispensable).minByOrNull { it.heardAt }?.let { return Room.After(it) }
        if (added == dispensable) return Room.None
    }
    val ringing = ofStanding(Standing.RINGING)
    val candidates = ringing.map { it.snapshot } + if (added == Standing.RINGING) listOf(call) else emptyList()
    val refused = leastMissed(candidates)
    return ringing.firstOrNull { it.snapshot === refused }?.let(Room::After) ?: Room.None
}

/**
 * Returns the newest ringing call of the inviter with the most ringing calls: the last call of a flood is forgotten,
 * and not another user's only call.
 */
private fun MachineState.leastMissed(ringing: List<CallSnapshot>): CallSnapshot? {
    fun caller(call: CallSnapshot) = call.member(user)?.invitedBy ?: call.inviter
    val counts = ringing.groupingBy(::caller).eachCount()
    return ringing.maxWithOrNull(compareBy({ counts[caller(it)] }, { it.createdAt }, { it.callID }))
}
