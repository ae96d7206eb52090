package org.bellwire.machine

import kotlinx.serialization.json.JsonObject
import org.bellwire.BellwireException
import org.bellwire.CallEvent
import org.bellwire.CallSnapshot
import org.bellwire.Message
import org.bellwire.ReceiptMessage
import org.bellwire.Request
import org.bellwire.Response
import org.bellwire.Signal
import org.bellwire.Welcome

/** A message of the machine to the client. Each message about a call carries the whole call. */
internal sealed interface Told {
    /** The service has answered this device, after each connect and reconnect. */
    object Online : Told

    /** The connection to the broker is lost. The machine keeps the requests. */
    class Offline(val reason: String) : Told

    /** An event of the protocol (section 5). Each event comes once, in the order of revisions. */
    class Event(val event: CallEvent) : Told

    /** The call's state from a response or a welcome, when newer than all earlier messages to the client. */
    class Snapshot(val call: CallSnapshot) : Told

    /** The countdown of a ringing invitation passed without news from the service: the app must stop ringing. */
    class InvitationExpired(val call: CallSnapshot) : Told

    /** The call is over for an unknown reason, or the machine had to forget the call because too many calls ring. */
    class Gone(val call: CallSnapshot) : Told
    class OfSignal(val signal: Signal) : Told
    class OfMessage(val message: Message) : Told
    class OfReceipt(val receipt: ReceiptMessage) : Told

    /** The service could not read a message of this device, or refused a signal. */
    class Error(val error: BellwireException) : Told

    /** A welcome with its data that belongs to no call. */
    class OfWelcome(val welcome: Welcome) : Told
}

internal sealed interface Action {
    /** Publish on the device's up topic. */
    class Publish(val message: JsonObject) : Action

    /** Publish on the device's presence topic. */
    class PublishPresence(val message: JsonObject) : Action

    /** Tell the app. */
    class Deliver(val told: Told) : Action

    /** The request has succeeded. */
    class Succeed(val id: String, val response: Response) : Action

    /** The request has failed. */
    class Fail(val id: String, val error: BellwireException) : Action

    /** The machine ignores a message about this call, because too many calls ring at once. */
    class Refuse(val callID: String) : Action

    /**
     * Connect again with a new session and its will, to the next broker of the list: the service considers this session
     * over, or the broker delivers nothing.
     */
    object RenewSession : Action

    /** The device has a newer session at another broker: end the connection for good. */
    object EndTakenOver : Action

    /** The token ends soon: ask the app for another token, and connect with that token. */
    object RenewToken : Action
}

/** Times are in milliseconds. */
internal data class MachineConfiguration(
    /** The time limit of a request. */
    val requestTimeout: Long = 30_000,
    /** The interval of presence messages: half of the lease of 10 min (section 1). */
    val presenceRenewal: Long = 300_000,
    /** The time that an invitation rings on after its countdown: long enough for a resend of its outcome to arrive. */
    val ringingMargin: Long = 3_000,
    /** The number of requests that wait behind another request of the same call. */
    val queuedPerCall: Int = 16,
    /** The number of unanswered requests, including queued requests. */
    val requests: Int = 256,
    /**
     * The number of calls with a remembered revision. Ended calls are forgotten first; calls in which the device takes
     * part are never forgotten.
     */
    val knownCalls: Int = 256,
    /** Whether the app can give another token before a token ends. */
    val renewsTokens: Boolean = false,
    /**
     * The stream name of this client's signals and ordered messages. A new name per client separates the streams of
     * different runs. Without a name no message has an order.
     */
    val signalStream: String? = null,
)

/** The countdown of a ringing invitation. */
internal class Countdown(
    /**
     * The expiry by the service's clock. The machine compares this value only with other expiries of the call, to
     * recognize a new invitation.
     */
    val expiresAt: Long?,
    /** The end of the countdown by this device's clock. */
    val until: Long,
)

/** The machine's knowledge of a call. */
internal class KnownCall(
    /** The newest state from events, responses and welcomes. */
    var snapshot: CallSnapshot,
    /** The time of the last news of the call, and the number of the connection that brought the news. */
    var heardAt: Long,
    var connection: Int,
) {
    /**
     * The highest revision from an event or a response. Revisions of welcomes do not count, because the event of the
     * same revision must still reach the app.
     */
    var revision = 0L

    /** The creation time of that revision, by the service's clock. */
    var time = 0L

    /** All revisions from before this time are at most as new as `snapshot`, by the service's clock. */
    var asOf = 0L

    /** Whether the app considers the call live, with this user pending or accepted. */
    var isLive = false
    var countdown: Countdown? = null
    var nextHeartbeat: Long? = null
}

/**
 * `QUEUED`: the request waits for the response to an earlier request, or to an earlier message to the same recipient.
 * `SENDING`: the machine has sent the request on this connection, and sends again at `nextSend`. `AWAITING_INVITE`: a
 * cancel overtook its invite, and the service answered `callNotFound`. The service remembers the cancel; the response
 * to the invite shows the call's state.
 */
internal enum class Stage { QUEUED, SENDING, AWAITING_INVITE }

/** A request without a response. */
internal class PendingRequest(
    var request: Request,
    /** The time at which the request fails. */
    val deadline: Long,
    /** The time of the next send, in the stage `SENDING`. */
    var nextSend: Long,
    /** Whether the request is an ordered message that has not left this device and so has no place yet. */
    var isUnplaced: Boolean,
) {
    var stage = Stage.QUEUED

    /** The number of sends on this connection. */
    var sends = 0

    /** The last response that asked for another attempt. */
    var refusal: BellwireException? = null
}

/** A peer message of this device without a receipt. */
internal class UnreceiptedMessage(
    var request: Request,
    val messageID: String,
    val to: String,
    /** Whether the message is ordered, has not left this device and so has no place yet. */
    var isUnplaced: Boolean,
    /** The end of the message's time to live. */
    val endsAt: Long,
    /** The time of the next question to the service about the receipt. */
    var askAt: Long,
) {
    var questions = 0
}

/**
 * `CONNECTED`: the broker has accepted the connection, but responses would not arrive before `SUBSCRIBED`, so the
 * machine sends no request.
 */
internal enum class Link { OFFLINE, CONNECTED, SUBSCRIBED }

/** The machine's whole state. Only the functions of this package change the state. */
internal class MachineState(val user: String, val device: String, val configuration: MachineConfiguration) {
    var link = Link.OFFLINE

    /** The session of the current connection. */
    var session = ""

    /** The sessions of this client, the latest last. */
    val ownSessions = ArrayDeque<String>()

    /** The number of connections so far, to recognize news of earlier connections. */
    var connection = 0

    /** Whether the app's last message about the connection was `Online`. */
    var isOnline = false

    /** The number of presence messages since the last answer. */
    var presenceSends = 0

    /** Whether the machine waits for a welcome that names the session. */
    var isAwaitingWelcome = false
    var nextPresence: Long? = null

    /** The time of the last immediate answer to a welcome for another session. */
    var lastCorrection: Long? = null

    /** The time of the last reconnect because of a session that was over. */
    var lastSessionRenewal: Long? = null

    /**
     * The time at which the device sent, on this connection, the first request after which no message has come; null
     * when there is none.
     */
    var requestedAt: Long? = null

    /** The same of presence. */
    var presenceSentAt: Long? = null

    /** The number of connections in a row that were left because no message came. */
    var leftInSilence = 0

    /** The time at which the machine asks for another token; null when unknown or done. */
    var tokenRenewal: Long? = null

    /** Whether the connection is being replaced for a new token, of which the app is not told. */
    var isRenewing = false

    /** The interval of heartbeats in milliseconds, from the welcome. */
    var heartbeatInterval = 20_000L

    /** Requests in the order of the app's calls. A linear search suffices for their small number. */
    val pending = mutableListOf<PendingRequest>()
    val calls = mutableListOf<KnownCall>()

    /** Listed calls of a welcome that have requests in `pending`, with the time of the welcome. */
    val heldCalls = mutableMapOf<String, Pair<CallSnapshot, Long>>()

    /** The next place in this device's stream of signals, per call. */
    val nextSignal = mutableMapOf<String, Long>()

    /** Signals that wait for a connection, with the end of their use. */
    val waitingSignals = ArrayDeque<Pair<JsonObject, Long>>()
    val signalStreams = OrderedStreams<Signal>(signalBounds)

    /** Ids of peer messages in the order of arrival, to deliver each message once. Some messages wait for their turn. */
    val shown = LinkedHashSet<String>()
    val messageStreams = OrderedStreams<Message>(messageBounds)

    /** The next places of own ordered messages. */
    val places = MessagePlaces(configuration.signalStream)

    /** Own messages without a receipt, in the order of sending. */
    val unreceipted = mutableListOf<UnreceiptedMessage>()
}

/** Returns the wait after the `count`th send of a message: 1, 2, 4, 8 s, then always 8 s (sections 1 and 2). */
internal fun resendDelay(count: Int): Long = 1_000L shl (count - 1).coerceIn(0, 3)

internal fun deliver(told: Told): Action = Action.Deliver(told)
