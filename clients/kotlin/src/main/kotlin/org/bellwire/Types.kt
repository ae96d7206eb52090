package org.bellwire

import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject

/** The state of a client's connection. */
public enum class ConnectionState {
    /** The app has not called `connect()`, or has called `disconnect()`. */
    DISCONNECTED,

    /** The client makes its first connection. */
    CONNECTING,

    /** The service knows this device: calls ring here. */
    CONNECTED,

    /** The connection is lost, or an attempt failed, and the client tries again. */
    RECONNECTING,

    /**
     * The broker refuses this client. With a token provider the client tries again, slowly, with another token. Without
     * a token provider the client has given up, and `connect()` tries again.
     */
    REFUSED,

    /** The token has ended, and the client has no provider of another token. The client has given up. */
    TOKEN_EXPIRED,

    /**
     * Another connection has this device's id now. This client has given up, since the two clients would displace each
     * other without end.
     */
    TAKEN_OVER,
}

/** The mode of a call (docs/protocol.md, section 3). */
public enum class CallMode(internal val wire: String) {
    /** The call ends with the answer. */
    COMMON("common"),

    /** The call lives on after the answer, until its members leave or end the call. */
    ADVANCED("advanced"),
}

/** The state of a whole call (docs/protocol.md, section 4). */
public enum class CallState(internal val wire: String) {
    /** Only the inviter has accepted. */
    RINGING("ringing"),
    ACTIVE("active"),
    ENDED("ended"),
}

/** The state of a member of a call (docs/protocol.md, section 3). */
public enum class MemberState(internal val wire: String) {
    /** The invitation is on its way. */
    INVITING("inviting"),

    /** No device of the user has received the invitation in time. The invitation is still open. */
    NOT_YET_RECEIVED("notYetReceived"),

    /** A device of the user has received the invitation: the phone rings. */
    RECEIVED("received"),
    ACCEPTED("accepted"),
    REJECTED("rejected"),
    CANCELLED("cancelled"),
    TIMEOUT("timeout"),
    QUIT("quit"),
    ;

    /** Whether the invitation is open and not answered. */
    public val isPending: Boolean get() = this == INVITING || this == NOT_YET_RECEIVED || this == RECEIVED
}

/**
 * A member within a call (docs/protocol.md, section 4). Times are milliseconds since 1970 by the service's clock.
 *
 * @property device The device on which the user accepted, rejected or joined.
 */
public data class Member(
    val userID: String,
    val state: MemberState,
    val updatedAt: Long,
    val name: String? = null,
    val avatarURL: String? = null,
    val device: String? = null,
    val invitedBy: String? = null,
    val expiresAt: Long? = null,
    val reason: String? = null,
    val extendedData: String? = null,
)

/**
 * All that members may see of a call at a revision (docs/protocol.md, section 4). Times are milliseconds since 1970 by
 * the service's clock.
 *
 * @property timeout The timeout of an invitation, in seconds.
 * @property members All present and past members in the order of their invitations; the inviter is the first.
 */
public data class CallSnapshot(
    val callID: String,
    val revision: Long,
    val mode: CallMode,
    val state: CallState,
    val inviter: String,
    val createdAt: Long,
    val timeout: Long,
    val members: List<Member>,
    val media: String? = null,
    val acceptedAt: Long? = null,
    val endedAt: Long? = null,
    val endReason: String? = null,
    val endedBy: String? = null,
    val extendedData: String? = null,
) {
    /** The member with this user id; null when the user was never a member. */
    public fun member(userID: String): Member? = members.firstOrNull { it.userID == userID }
}

/**
 * A change of a member's state.
 *
 * @property userID The member; this user too, when this user's own state changed.
 * @property reason The reason of the state, such as `declined`, `busy` or `callerLost`.
 * @property device The device on which the user accepted, rejected or joined.
 */
public data class CallChange(
    val userID: String,
    val state: MemberState,
    val reason: String? = null,
    val extendedData: String? = null,
    val device: String? = null,
)

/** A signal of another member. The app must check `data` before use. */
public data class CallSignal(val from: String, val fromDevice: String, val data: JsonElement)

/** The effect of a call to a user who is in a call (docs/protocol.md, section 2, `ifBusy`). */
public enum class IfBusy(internal val wire: String) { RING("ring"), REJECT("reject") }

/** The effect when two users call each other at the same time (docs/protocol.md, section 2, `glare`). */
public enum class Glare(internal val wire: String) { RING("ring"), MERGE("merge") }

/** The users who may join a call without an invitation (docs/protocol.md, section 2, `joinPolicy`). */
public enum class JoinPolicy(internal val wire: String) { INVITED("invited"), ANYONE("anyone") }

/**
 * The texts of a push about an invitation (docs/protocol.md, section 7).
 *
 * @property payload A text for the app, of the app's own form.
 * @property missedTitle The title of the push about the missed call.
 */
public data class PushTexts @JvmOverloads constructor(
    val title: String? = null,
    val content: String? = null,
    val payload: String? = null,
    val missedTitle: String? = null,
    val missedContent: String? = null,
)

/**
 * The fields of an invitation (docs/protocol.md, section 2, `call.invite`).
 *
 * @property media `voice`, `video` or the app's own word.
 * @property timeout The seconds until the invitation expires, 1 to 600; 60 at the service when null.
 * @property extendedData A text for the members, at most 2,048 bytes.
 * @property notReceivedAfter The seconds until members are told `NOT_YET_RECEIVED`, 1 to 30; 5 at the service when
 *   null.
 * @property callID The id of the call, 1 to 64 of `A-Z a-z 0-9 _ -`; random when null.
 */
public data class CallOptions @JvmOverloads constructor(
    val media: String? = null,
    val mode: CallMode = CallMode.ADVANCED,
    val timeout: Int? = null,
    val extendedData: String? = null,
    val ifBusy: IfBusy? = null,
    val glare: Glare? = null,
    val push: PushTexts? = null,
    val joinPolicy: JoinPolicy? = null,
    val autoEnd: Boolean? = null,
    val notReceivedCheck: Boolean? = null,
    val notReceivedAfter: Int? = null,
    val callID: String? = null,
)

/** A problem with a single user in an otherwise successful request (docs/protocol.md, section 2). */
public data class UserError(val userID: String, val code: String)

/**
 * The result of an invitation besides the call.
 *
 * @property offline Invitees without an online device. Their devices ring when they come online.
 * @property errors Users that could not be invited, with the reason.
 */
public data class Invited(val offline: List<String> = emptyList(), val errors: List<UserError> = emptyList())

/**
 * The data with which a device enters the room of its call at a media server (docs/protocol.md, section 8). The token
 * admits its holder to the room, so an app must not log or store the token.
 *
 * @property server The name of the media server in the operator's settings.
 * @property type `livekit`, `jitsi` or `jwt`.
 * @property expiresAt The end of the token, in milliseconds since 1970. The device must have joined by then.
 */
public data class MediaSession(
    val server: String,
    val type: String,
    val url: String,
    val room: String,
    val token: String,
    val expiresAt: Long,
) {
    override fun toString(): String = "MediaSession(server=$server, type=$type, url=$url, room=$room, token=…)"
}

/** A STUN or TURN server of the deployment, as WebRTC's `IceServer` takes it. */
public data class IceServer(val urls: List<String>, val username: String? = null, val credential: String? = null) {
    override fun toString(): String = "IceServer(urls=$urls, username=$username, credential=…)"
}

/**
 * A peer message of a user. The app must check `data` before use.
 *
 * @property time The time of sending, in milliseconds since 1970 by the service's clock.
 */
public data class PeerMessage(
    val messageID: String,
    val from: String,
    val fromDevice: String,
    val time: Long,
    val data: JsonElement,
)

/** The outcome of a peer message of this client. `isDelivered`: a device of the recipient has received the message. */
public data class Receipt(val messageID: String, val to: String, val isDelivered: Boolean, val time: Long)

/**
 * The service's answer to a peer message.
 *
 * @property state `sent`, `delivered` or `expired`.
 */
public data class SentMessage(val messageID: String, val time: Long, val state: String)

/** A user's profile, and whether a device of the user is online. */
public data class UserProfile(
    val userID: String,
    val online: Boolean,
    val name: String? = null,
    val avatarURL: String? = null,
    val extendedData: String? = null,
)

/** The profiles of users. `errors` lists unknown users. */
public data class Users(val users: List<UserProfile>, val errors: List<UserError>)

/** A page of this user's calls, newest first. `cursor` leads to the next page; the last page has none. */
public data class CallPage(val calls: List<CallSnapshot>, val cursor: String?)

/**
 * An entry of a call's timeline (docs/protocol.md, section 6).
 *
 * @property time Milliseconds since 1970, by the service's clock.
 * @property at Milliseconds since the call was created.
 * @property coordinator The coordinator that wrote the entry.
 * @property fields The whole entry; further fields depend on `kind`.
 */
public data class TraceEntry(
    val time: Long,
    val at: Long,
    val coordinator: String,
    val kind: String,
    val fields: JsonObject,
)

/** A call's timeline. `omitted` is the number of older entries that were dropped. */
public data class Trace(val call: CallSnapshot, val entries: List<TraceEntry>, val omitted: Long)

/** A push service (docs/protocol.md, section 7). */
public enum class Platform(internal val wire: String) { FCM("fcm"), APNS("apns"), APNS_VOIP("apnsVoIP") }

/** The reasons for which a call is over (`Call.endReason`; docs/protocol.md, section 4). A later service may add reasons. */
public object EndReasons {
    /**
     * A call of mode `common` was answered, and nobody rings any more: the service's part is over.
     * `Call.isInConversation` tells whether the conversation begins on this device.
     */
    public const val ANSWERED: String = "answered"
    public const val REJECTED: String = "rejected"
    public const val BUSY: String = "busy"
    public const val TIMEOUT: String = "timeout"
    public const val CANCELLED: String = "cancelled"

    /** The inviter's devices could no longer be reached while the call rang. */
    public const val CALLER_LOST: String = "callerLost"

    /** A member has ended the call for all. */
    public const val HANGUP: String = "hangup"
    public const val QUIT: String = "quit"

    /** The heartbeats of the members stopped. */
    public const val HEARTBEAT_TIMEOUT: String = "heartbeatTimeout"

    /** Another device of this user has accepted the call. This device's own reason, as the following are. */
    public const val ANSWERED_ELSEWHERE: String = "answeredElsewhere"
    public const val REJECTED_ELSEWHERE: String = "rejectedElsewhere"

    /** The call ended while this device could not be reached. */
    public const val GONE: String = "gone"

    /** The app has disconnected the client. */
    public const val DISCONNECTED: String = "disconnected"
}
