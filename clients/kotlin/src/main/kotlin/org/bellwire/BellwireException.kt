package org.bellwire

/**
 * Every failure that this SDK reports.
 *
 * @property code The code for decisions in programs: one of `ErrorCodes`, or a code that a later service adds.
 * @param message A text for people; the wording may change.
 * @property state With `invalidState`, `callEnded` and `answeredElsewhere`: the state that prevents the request.
 * @property callID With `alreadyInCall`: the id of the user's own live call.
 * @property retryAfter With `rateLimited` and `unavailable`: the milliseconds to wait.
 */
public class BellwireException internal constructor(
    public val code: String,
    message: String,
    public val state: String?,
    public val callID: String? = null,
    public val retryAfter: Long? = null,
    internal val session: String? = null,
    internal val reason: String? = null,
    internal val newerSession: String? = null,
) : Exception(if (message.isEmpty()) code else "$code: $message") {
    /** For tests of an app. */
    public constructor(code: String, message: String = "") : this(code, message, state = null)
}

/** The codes of errors: those of the protocol (docs/protocol.md, section 2), and last those that the SDK makes itself. */
public object ErrorCodes {
    /** A field is malformed, missing, ill-typed or out of range; the message names the field. */
    public const val BAD_REQUEST: String = "badRequest"
    public const val UNKNOWN_TYPE: String = "unknownType"

    /** The request, or its data, is larger than the limit. */
    public const val TOO_LARGE: String = "tooLarge"

    /** An invitation names a call id that is already used. */
    public const val CALL_EXISTS: String = "callExists"

    /** The call does not exist, or this user was never invited to the call. */
    public const val CALL_NOT_FOUND: String = "callNotFound"
    public const val NOT_INVITER: String = "notInviter"

    /** The request exists in advanced calls only. */
    public const val WRONG_MODE: String = "wrongMode"

    /** The request is not possible in the state that the exception names. */
    public const val INVALID_STATE: String = "invalidState"

    /** Another device of the same user has accepted or rejected. */
    public const val ANSWERED_ELSEWHERE: String = "answeredElsewhere"
    public const val CALL_ENDED: String = "callEnded"

    /** The user is accepted in another live advanced call; the exception names this call. */
    public const val ALREADY_IN_CALL: String = "alreadyInCall"
    public const val BUSY: String = "busy"
    public const val CALL_FULL: String = "callFull"

    /** Every invitee failed: the service makes no call, or adds nobody. */
    public const val NO_INVITEES: String = "noInvitees"

    /** The device's session has ended. The client begins another session by itself, except after `TAKEN_OVER`. */
    public const val SESSION_OVER: String = "sessionOver"

    /** The operator has named no media server for calls like this. */
    public const val NO_MEDIA: String = "noMedia"
    public const val USER_NOT_REGISTERED: String = "userNotRegistered"
    public const val RATE_LIMITED: String = "rateLimited"

    /** The service cannot answer now. The client sends the request again until its time limit. */
    public const val UNAVAILABLE: String = "unavailable"
    public const val INTERNAL: String = "internal"
    public const val TOKEN_EXPIRED: String = "tokenExpired"
    public const val TOKEN_REVOKED: String = "tokenRevoked"

    /** The broker disconnects this device, which has sent too much. */
    public const val FLOODING: String = "flooding"

    /** The broker disconnects this device, which has read too slowly. */
    public const val SLOW_READER: String = "slowReader"

    /** An administrator has disabled the user. */
    public const val USER_DISABLED: String = "userDisabled"

    // The SDK's own, which are never on the wire.
    /** No response came within the time limit; the service may have served the request. */
    public const val NO_RESPONSE: String = "noResponse"

    /** More requests are unanswered than the client keeps. The request was not sent. */
    public const val TOO_MANY_REQUESTS: String = "tooManyRequests"

    /** The app has not called `connect()`, or the client has ended since. */
    public const val NOT_CONNECTED: String = "notConnected"

    /** The broker refuses this device. */
    public const val REFUSED: String = "refused"

    /** Another client has connected under this device's id. */
    public const val TAKEN_OVER: String = "takenOver"

    /** The app disconnected the client before the response came. */
    public const val DISCONNECTED: String = "disconnected"

    /** The token provider failed. */
    public const val NO_TOKEN: String = "noToken"
}
