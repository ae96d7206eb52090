package org.bellwire

import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.map
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject

/**
 * A call as this device knows it. The call changes only by messages of the service. All functions may be called from
 * any thread.
 *
 * Each request suspends until the service has answered, and throws a `BellwireException` with the service's error code,
 * such as `answeredElsewhere`, `callEnded` or `invalidState`, or with a code of the SDK's own (`noResponse`,
 * `disconnected`). A coroutine that is cancelled while it waits does not take the request back.
 */
public class Call internal constructor(
    private val client: BellwireClient,
    snapshot: CallSnapshot,
    /** Whether another user called this user. */
    public val isIncoming: Boolean,
) {
    private val current = MutableStateFlow(snapshot)
    private val changeHub = EventHub<CallChange>()
    private val signalHub = EventHub<Signal> { it.data.text.length }

    private val over = MutableStateFlow<String?>(null)

    @Volatile
    private var wasMissed = false

    @Volatile
    private var session: MediaSession? = null

    /** For a call that this client made: users that are offline or could not be invited. */
    @Volatile
    public var invited: Invited = Invited()
        internal set

    private val startedAt = client.now

    /** The milliseconds since this device made the call or learned of the call. `report` takes times of this clock. */
    public val elapsed: Long get() = client.now - startedAt

    /** The id of the call. Safe for file names and topics: `A-Z a-z 0-9 _ -`. */
    public val id: String = snapshot.callID

    /** The newest state of the call, as a flow for user interfaces. Never completes. */
    public val snapshots: StateFlow<CallSnapshot> = current.asStateFlow()

    /** The newest state of the call (docs/protocol.md, section 4). */
    public val snapshot: CallSnapshot get() = current.value

    /** The state of the whole call. `endReason` tells whether the call is over for this device. */
    public val state: CallState get() = snapshot.state

    /** All present and past members, in the order of their invitations; the inviter is the first. */
    public val members: List<Member> get() = snapshot.members
    public val inviter: String get() = snapshot.inviter
    public val mode: CallMode get() = snapshot.mode
    public val media: String? get() = snapshot.media
    public val extendedData: String? get() = snapshot.extendedData

    /** The other members that are in the call now. */
    public val others: List<String>
        get() = members.filter { it.state == MemberState.ACCEPTED && it.userID != client.user }.map { it.userID }

    /** Whether the phone of another member rings. Time for the ringback tone. */
    public val isRingingElsewhere: Boolean
        get() = members.any { it.userID != client.user && it.state == MemberState.RECEIVED }

    /** Whether the user takes part in the call on this device. */
    public val isHere: Boolean get() = over.value == null && isOnThisDevice(snapshot)

    /**
     * Whether there is a conversation on this device: the user takes part in the call here, or a common call has ended
     * with an answer, in which case the conversation goes on without the service.
     */
    public val isInConversation: Boolean
        get() = isHere || endReason == EndReasons.ANSWERED && isOnThisDevice(snapshot)

    /**
     * The reason for which the call is over for this device, one of `EndReasons` or a text of the app that ended the
     * call; null before the end. The call's own reason, or this user's last state in a call that goes on (`rejected`,
     * `quit`, `timeout`, `cancelled`).
     */
    public val endReason: String? get() = over.value

    /**
     * `endReason` as a flow for user interfaces: null until the call is over for this device. Changes after
     * `snapshots`. Never completes.
     */
    public val endReasons: StateFlow<String?> = over.asStateFlow()

    /**
     * Whether the service has told this device that the call is over and that this user never responded on any device.
     * False also when this device could not be reached at the end (`endReason` is `gone`, or `timeout` by this device's
     * own clock): `client.history()` then tells what became of the call.
     */
    public val isMissed: Boolean get() = wasMissed

    /**
     * The newest media session of this device: the media server's address, the room and a token. Null before the user
     * is accepted on this device, and for a call without a media server.
     */
    public val mediaSession: MediaSession? get() = session

    /**
     * Each change of a member's state once, this user's own too; completes when the call is over for this device.
     * Changes during an absence of this device come as a single change. Changes that come while there is no collector
     * wait for the next. A collector may be 1,024 changes behind; then the oldest are dropped.
     */
    public val changes: Flow<CallChange> get() = changeHub.elements

    /**
     * The signals of the other members, in the order of sending; lost signals are left out. Completes when the call is
     * over for this device. Signals that come while there is no collector wait for the next, the newest 1,024 with at
     * most a million characters of data.
     */
    public val signals: Flow<CallSignal> get() = signalHub.elements.map { CallSignal(it.from, it.fromDevice, it.data.read()) }

    // MARK: Requests (docs/protocol.md, section 2)

    /**
     * `call.accept`: accepts the invitation on this device. Throws `answeredElsewhere`, `callEnded`, `invalidState`; in
     * advanced mode `alreadyInCall`.
     */
    public suspend fun accept(extendedData: String? = null) {
        learn(ask("call.accept", jsonOf("extendedData" to extendedData)).body["mediaSession"])
    }

    /**
     * `call.reject`: rejects the invitation. `reason`: `declined`, `busy`, or any text of at most 256 bytes. Throws
     * `answeredElsewhere`, `callEnded`, `invalidState`.
     */
    public suspend fun reject(reason: String = "declined", extendedData: String? = null) {
        ask("call.reject", jsonOf("reason" to reason, "extendedData" to extendedData))
    }

    /**
     * `call.cancel`: cancels this user's pending invitations: the invitations of `invitees`, or all when null. Returns
     * the invitees that were not pending. Throws `notInviter`, `callEnded`, `invalidState`.
     */
    public suspend fun cancel(invitees: List<String>? = null, extendedData: String? = null): List<UserError> =
        readUserErrors(ask("call.cancel", jsonOf("invitees" to invitees, "extendedData" to extendedData)).body["errors"])

    /**
     * `call.add`, advanced calls: invites more users. `timeout` in seconds, 1 to 600; the call's own when null. Throws
     * `wrongMode`, `invalidState`, `callEnded`, `callFull`, `noInvitees`, `rateLimited`.
     */
    public suspend fun add(
        invitees: List<String>,
        timeout: Int? = null,
        extendedData: String? = null,
        push: PushTexts? = null,
    ): Invited {
        val fields = jsonOf(
            "invitees" to invitees, "timeout" to timeout, "extendedData" to extendedData, "push" to push?.json,
        )
        return readInvited(ask("call.add", fields))
    }

    /**
     * `call.join`, advanced calls: enters the call, or moves this user's part from another device to this device.
     * Throws `wrongMode`, `callEnded`, `alreadyInCall`, `callNotFound`. `changes` does not begin again for a call that
     * was over on this device: `client.join(id)` returns another object.
     */
    public suspend fun join(extendedData: String? = null) {
        learn(ask("call.join", jsonOf("extendedData" to extendedData)).body["mediaSession"])
    }

    /** `call.quit`, advanced calls: leaves the call. The call goes on while at least two members remain. */
    public suspend fun quit(extendedData: String? = null) {
        ask("call.quit", jsonOf("extendedData" to extendedData))
    }

    /** `call.end`, advanced calls: ends the call for all. `reason`: a text of at most 256 bytes. */
    public suspend fun end(reason: String? = null, extendedData: String? = null) {
        ask("call.end", jsonOf("reason" to reason, "extendedData" to extendedData))
    }

    /**
     * Leaves the call, whatever this user's state: rejects an invitation that rings here, cancels the invitations of
     * this user, ends a call of two members, and quits a call of more than two members. Does nothing when the call is
     * over.
     */
    public suspend fun hangUp() {
        val step = leaving ?: return
        try {
            take(step)
        } catch (exception: BellwireException) {
            if (exception.code == ErrorCodes.CALL_ENDED || exception.code == ErrorCodes.CALL_NOT_FOUND) return
            // An invitee may have answered in the same moment, and the response may tell of the answer before the event
            // comes.
            if (exception.code == ErrorCodes.INVALID_STATE && leaving == step) client.get(id)
            if (leaving == step) throw exception
        }
        // An invitee may have answered during the cancel.
        leaving?.takeIf { it != step }?.let { take(it) }
    }

    private enum class Leaving { REJECT, CANCEL, QUIT, END }

    /** The request that ends this user's part in the call; null when no request does. */
    private val leaving: Leaving?
        get() {
            val call = snapshot
            val own = call.member(client.user)?.state
            if (over.value != null || call.state == CallState.ENDED || own == null) return null
            if (own.isPending) return Leaving.REJECT
            if (own != MemberState.ACCEPTED) return null
            if (call.state == CallState.RINGING && call.inviter == client.user) return Leaving.CANCEL
            if (call.mode == CallMode.COMMON) return null
            val present = call.members.count { it.state == MemberState.ACCEPTED || it.state.isPending }
            return if (present > 2) Leaving.QUIT else Leaving.END
        }

    private suspend fun take(step: Leaving) {
        when (step) {
            Leaving.REJECT -> reject()
            Leaving.CANCEL -> cancel()
            Leaving.QUIT -> quit()
            Leaving.END -> end()
        }
    }

    /**
     * `call.media`: asks for another media session, which is then also `mediaSession`. Throws `noMedia` for a call
     * without a media server.
     */
    public suspend fun renewMediaSession(): MediaSession {
        val session = readMediaSession(ask("call.media", jsonOf()).body["mediaSession"])
            ?: throw BellwireException("internal", "the response brought no media session")
        this.session = session
        return session
    }

    /**
     * `call.signal`: sends any JSON value of at most 32 KiB to all other accepted members, or to the members in `to`.
     * Signals can get lost, but keep their order: a signal waits at most 5 s for a connection, and is dropped when too
     * much data waits to be sent. When the service refuses the signal, `client.errors` tells. Throws `tooLarge`.
     */
    public fun signal(data: JsonElement, to: List<String>? = null) {
        checkSize(data)
        client.signal(jsonOf("type" to "call.signal", "callID" to id, "to" to to, "data" to data))
    }

    /**
     * `call.report`: reports the times at which the call reached its milestones, in milliseconds since this device made
     * the call or learned of the call: `remoteReceived`, `accepted`, `joinedChannel`, `remoteJoinedChannel`,
     * `firstFrame`, or the app's own names.
     */
    public suspend fun report(milestones: Map<String, Long>) {
        ask("call.report", jsonOf("milestones" to jsonOf(*milestones.map { it.key to it.value }.toTypedArray())))
    }

    private suspend fun ask(type: String, fields: JsonObject): Response =
        client.perform(type, JsonObject(fields + jsonOf("callID" to id)))

    // MARK: Functions that the client calls, on its loop

    /** Takes the media session of a response or a welcome. */
    internal fun learn(json: JsonElement?) {
        readMediaSession(json)?.let { session = it }
    }

    internal fun learn(session: MediaSession?) {
        session?.let { this.session = it }
    }

    /** Takes the call's new state from the service. */
    internal fun update(snapshot: CallSnapshot, isMissed: Boolean = false) {
        if (over.value != null) return
        val before = current.value
        current.value = snapshot
        if (isMissed) wasMissed = true
        for (member in snapshot.members) {
            if (before.members.isNotEmpty() && isChange(before.member(member.userID), member)) {
                changeHub.tell(CallChange(member.userID, member.state, member.reason, member.extendedData, member.device))
            }
        }
        endedBecause(snapshot)?.let(::finish)
    }

    internal fun signalled(signal: Signal) = signalHub.tell(signal)

    /** Ends the call for this device. */
    internal fun finish(reason: String) {
        if (over.value != null) return
        client.forget(this)
        over.value = reason
        changeHub.finish()
        signalHub.finish()
    }

    /** Whether the app is told of the change; not that this user's own devices have received the invitation. */
    private fun isChange(before: Member?, after: Member): Boolean {
        if (before?.state == after.state) {
            return before.reason != after.reason || before.extendedData != after.extendedData ||
                (after.state == MemberState.ACCEPTED && before.device != after.device)
        }
        return !(after.userID == client.user && before != null && after.state.isPending)
    }

    private fun isOnThisDevice(call: CallSnapshot): Boolean {
        val own = call.member(client.user)
        return own?.state == MemberState.ACCEPTED && own.device == client.device
    }

    /** Returns the reason why the call is over for this device; null while the call is not over. */
    private fun endedBecause(call: CallSnapshot): String? {
        val own = call.member(client.user)
        val isElsewhere = own?.device != null && own.device != client.device
        return when {
            isElsewhere && own.state == MemberState.REJECTED -> EndReasons.REJECTED_ELSEWHERE
            isElsewhere && own.state == MemberState.ACCEPTED -> EndReasons.ANSWERED_ELSEWHERE
            call.state == CallState.ENDED -> call.endReason ?: EndReasons.GONE
            own == null -> EndReasons.GONE
            own.state == MemberState.ACCEPTED || own.state.isPending -> null
            own.reason == EndReasons.CALLER_LOST || own.reason == EndReasons.HEARTBEAT_TIMEOUT -> own.reason
            else -> own.state.wire
        }
    }

    override fun toString(): String = "Call($id, $state)"
}

internal fun checkSize(data: JsonElement) {
    checkDepth(data)
    if (data.toString().toByteArray().size > Limits.DATA) {
        throw BellwireException("tooLarge", "data has at most ${Limits.DATA} bytes of JSON")
    }
}

internal fun readInvited(response: Response): Invited =
    Invited(readUsers(response.body["offline"]), readUserErrors(response.body["errors"]))

internal val PushTexts.json: JsonObject
    get() {
        val missed = jsonOf("title" to missedTitle, "content" to missedContent)
        return jsonOf(
            "title" to title, "content" to content, "payload" to payload, "missed" to missed.takeIf { it.isNotEmpty() },
        )
    }
