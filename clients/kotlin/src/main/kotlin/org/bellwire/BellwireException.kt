package org.bellwire

/**
 * Every failure that this SDK reports.
 *
 * @property code The code for decisions in programs: an error code of the protocol (docs/protocol.md, section 2), or a
 *   code of the SDK's own, which is never on the wire: `noResponse` (no response came within the time limit; the service
 *   may have served the request), `tooManyRequests` (the request was not sent), `notConnected`, `refused` (the broker
 *   refuses this device), `tokenExpired`, `takenOver` (another client has connected under this device's id),
 *   `disconnected` (the app disconnected the client before the response came), `noToken` (the
 *   token provider failed). A later service may add codes.
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
