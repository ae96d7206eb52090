package org.bellwire

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import org.bellwire.machine.Told
import org.bellwire.transport.BrokerAddress
import org.bellwire.transport.ConnectionFailure
import org.bellwire.transport.MqttTransport
import org.bellwire.transport.Transport
import java.util.concurrent.ConcurrentHashMap
import javax.net.ssl.SSLContext

/**
 * A device of a user. The client makes, answers and receives calls.
 *
 * The client keeps itself connected. After a lost connection the client reconnects (after 0.25 s, then more slowly, up
 * to 8 s), tells the service that the device is back, and learns of missed events. The client keeps requests meanwhile
 * and resends each request until its response or its time limit. The client acks events by itself.
 *
 * All functions may be called from any thread. Requests suspend until the service has answered; they throw a
 * `BellwireException`.
 */
public class BellwireClient internal constructor(
    private val configuration: Configuration,
    private val makeLoop: (String) -> Loop,
) {
    /** Throws `badRequest` when the user, the device or an address is not valid. */
    public constructor(configuration: Configuration) : this(
        configuration, { name -> ThreadLoop(name, configuration.clock, ClientLog(configuration.log)) },
    )

    /**
     * The settings of a client.
     *
     * @property url The broker's address, `mqtt://`, `mqtts://`, `ws://` or `wss://`, or the addresses of all brokers
     *   of the deployment with commas between them. With several, each connection goes to the next broker, in an order
     *   that differs from device to device.
     * @property user The user id, 1 to 64 bytes.
     * @property device The id of this device, 1 to 64 of `A-Z a-z 0-9 . _ ~ -`. A second client under the same id
     *   replaces the first. When null, each client has a random id; an app keeps an id of its own per installation, so
     *   that the service does not count the app of yesterday as another device.
     * @property token Returns a token (the MQTT password), for brokers that check tokens. The client asks before each
     *   connection, a minute before a token ends, and when the broker refuses the current token. For a token that is
     *   about to end the client reconnects without telling the app. The provider has 30 s. When the provider fails,
     *   `errors` tells `noToken`, and the client connects with the last token, unless the broker has refused that
     *   token. An app that fetches its tokens keeps a token until shortly before the token's end.
     * @property sslContext The trusted authorities; the JVM's or Android's own when null.
     * @property transport Another MQTT client in place of the SDK's own.
     * @property topicRoot The topics' root (docs/protocol.md, section 1).
     * @property keepAlive The MQTT keep-alive in seconds. The broker counts a device as lost after 1.5 times this
     *   period of silence.
     * @property qos The QoS of this device's subscriptions and messages at the broker, 0 or 1. The SDK sends a request
     *   without a response again after a second at either QoS.
     * @property requestTimeout The time limit of a request in milliseconds. The request then throws `noResponse`.
     * @property clock Returns milliseconds of a clock that never goes back. On Android `BellwireAndroid.clock`, which
     *   goes on while the phone sleeps; the JVM's own clock stands still then. After a sleep the client does what has
     *   become due at the next message, `networkChanged()` or `find()`.
     * @property log Takes the lines of the client's log; when null, warnings go to the standard error stream.
     */
    public class Configuration(
        public val url: String,
        public val user: String,
        public val device: String? = null,
        public val token: (suspend () -> String)? = null,
        public val sslContext: SSLContext? = null,
        public val transport: Transport? = null,
        public val topicRoot: String = "bellwire/v1",
        public val keepAlive: Int = 90,
        public val requestTimeout: Long = 30_000,
        public val qos: Int = 0,
        public val clock: () -> Long = { System.nanoTime() / 1_000_000 },
        public val log: BellwireLog? = null,
    )

    public val user: String = checkUser(configuration.user)

    /** The id of this device. */
    public val device: String = configuration.device ?: randomID()
    internal val log = ClientLog(configuration.log)
    private val urls = configuration.url.split(",").map { it.trim() }
    private val transport = configuration.transport ?: MqttTransport(configuration.sslContext)
    private val standing = MutableStateFlow(ConnectionState.DISCONNECTED)
    private val incoming = EventHub<Call>()
    private val resumed = EventHub<Call>()
    private val messageHub = EventHub<Message> { it.data.text.length }
    private val receiptHub = EventHub<Receipt>()
    private val errorHub = EventHub<BellwireException>()

    /** The calls that ring on this device or in which this device takes part. Changed on the loop alone. */
    private val known = ConcurrentHashMap<String, Call>()

    /** The requests without an outcome, by id. Used on the loop alone. */
    private val outcomes = HashMap<String, Asked<*>>()

    /** The calls whose invitation got no response, until the client has cancelled or ended these calls. */
    private val takenBack = ConcurrentHashMap.newKeySet<String>()

    /** The number of requests without an outcome. */
    internal val unanswered: Int get() = outcomes.size

    /** Whether the client is ending. Used on the loop alone. */
    private var isEnding = false

    /** The answers to complete after the current event. Used on the loop alone. */
    private val completions = ArrayDeque<() -> Unit>()
    private val requestPrefix = randomID()
    private var requestCount = 0L

    @Volatile
    private var servers: List<IceServer> = emptyList()

    /** The media sessions of the last welcome, for calls that become known later. Used on the loop alone. */
    private var sessions: Map<String, MediaSession> = emptyMap()

    /** Milliseconds of the app's clock. */
    internal val now: Long get() = configuration.clock()

    /** A connected or connecting client; null before `connect()`, after `disconnect()` and after the client gave up. */
    private class Running(val driver: Driver, val loop: Loop) {
        /** Completed while the service knows the device. */
        @Volatile
        var isConnected = CompletableDeferred<Unit>()
    }

    /** Guards the beginning and the end of `running`. */
    private val lock = Any()

    @Volatile
    private var running: Running? = null

    /** Runs the requests that end calls after their coroutine has given up the calls. */
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.Default)

    @Volatile
    private var lastProblem: String? = null

    init {
        if (configuration.keepAlive !in 1..65_535) throw BellwireException("badRequest", "keepAlive is 1 to 65,535 s")
        if (configuration.qos !in 0..1) throw BellwireException("badRequest", "qos is 0 or 1")
        if (!isDevice(device)) throw BellwireException("badRequest", "a device id is 1 to 64 of A-Z a-z 0-9 . _ ~ -")
        if (configuration.transport == null) {
            try {
                urls.forEach { BrokerAddress(it) }
            } catch (exception: IllegalArgumentException) {
                throw BellwireException("badRequest", exception.message ?: "url")
            }
        }
    }

    // MARK: State and events

    /** The state of the connection. */
    public val state: StateFlow<ConnectionState> = standing.asStateFlow()

    /**
     * The calls of other users to this user: each invitation once, also after a reconnect. Invitations that come while
     * there is no collector wait for the next while they ring.
     */
    public val incomingCalls: Flow<Call> get() = incoming.elements

    /** The calls in which this device takes part and which this client does not know, as after a crash of the app. */
    public val resumedCalls: Flow<Call> get() = resumed.elements

    /**
     * The peer messages to this user, each once; ordered messages of a sender in the order of sending. Messages that
     * come while there is no collector wait for the next, the newest 1,024 with at most a million characters of data.
     */
    public val messages: Flow<PeerMessage>
        get() = messageHub.elements.map { it.run { PeerMessage(messageID, from, fromDevice, time, data.read()) } }

    /** The outcome of each peer message of this client. */
    public val receipts: Flow<Receipt> get() = receiptHub.elements

    /**
     * The errors that belong to no request: the broker refuses this device, the service could not read a message or
     * refused a signal, a receipt did not come.
     */
    public val errors: Flow<BellwireException> get() = errorHub.elements

    /** The calls that ring on this device or in which this device takes part. */
    public val calls: List<Call> get() = known.values.toList()

    /**
     * The reason for which the last attempt to connect failed or the last connection ended, as text for people; null
     * before the first failure, and while the client is connected.
     */
    public val problem: String? get() = lastProblem

    /** The deployment's STUN and TURN servers. The credentials last for about an hour, and each connection renews them. */
    public val iceServers: List<IceServer> get() = servers

    // MARK: Connecting

    /**
     * Connects, and returns when the service knows the device; keeps trying until then. Throws `refused` when the
     * broker refuses the token and there is no token provider, `takenOver`, and `disconnected` when `disconnect()` is
     * called meanwhile. The client keeps trying when the waiting coroutine is cancelled, as by `withTimeout`.
     */
    public suspend fun connect() {
        (running ?: synchronized(lock) { running ?: begin() }).isConnected.await()
    }

    private fun begin(): Running {
        val loop = makeLoop("bellwire-$device")
        val settings = DriverSettings(
            urls, user, device, configuration.topicRoot, configuration.keepAlive, configuration.token, transport,
            configuration.requestTimeout, configuration.qos, log,
        )
        val host = Host()
        val attempt = Running(Driver(settings, loop, host), loop)
        host.running = attempt
        running = attempt
        standing.value = ConnectionState.CONNECTING
        loop.post(attempt.driver::start)
        return attempt
    }

    /**
     * Says goodbye to the service and closes the connection. Unanswered requests throw `disconnected`, and calls are
     * over for this device with the reason `disconnected`. The app may call `connect()` again.
     */
    public suspend fun disconnect() {
        val ending = running ?: return
        val isDone = CompletableDeferred<Unit>()
        val isPosted = ending.loop.post {
            try {
                end(ending, disconnected(), ConnectionState.DISCONNECTED)
            } finally {
                isDone.complete(Unit)
            }
        }
        if (isPosted) isDone.await()
    }

    /**
     * Ends the client, on its loop. Once `running` is null, this function touches no property that the next `connect()`
     * uses. The app's coroutines, which may run in this thread, are told last.
     */
    private fun end(ending: Running, error: BellwireException, last: ConnectionState) {
        if (running !== ending) return
        isEnding = true
        ending.driver.stop()
        isEnding = false
        for (request in outcomes.values.toList()) request.settle(Result.failure(error))
        outcomes.clear()
        val over = calls
        known.clear()
        val answers = completions.toList()
        completions.clear()
        synchronized(lock) {
            running = null
            standing.value = last
        }
        ending.loop.end()
        for (call in over) call.finish(EndReasons.DISCONNECTED)
        for (answer in answers) answer()
        ending.isConnected.completeExceptionally(error)
    }

    private fun completeAll() {
        while (true) (completions.removeFirstOrNull() ?: return)()
    }

    /**
     * Tells the client that the device has another network, or that the app has come to the foreground: the client then
     * reconnects at once, or asks the broker for a sign of life, and does what has become due by its clock.
     */
    public fun networkChanged() {
        running?.let { it.loop.post(it.driver::networkChanged) }
    }

    // MARK: Calls

    /**
     * `call.invite`: calls users, and returns when the service has made the call. With `Glare.MERGE` the result may be
     * the invitee's own call. A coroutine that is cancelled meanwhile cancels the call, and ends a call that was
     * answered in the same moment. After `noResponse` the service may have made the call: the client cancels the call,
     * or ends an advanced call that was answered meanwhile; another attempt needs another `callID`. A call that was
     * merged, or that cannot be taken back, comes as a resumed call. Throws `alreadyInCall`, `callFull`, `noInvitees`,
     * `rateLimited`, `callExists`, `badRequest`.
     */
    public suspend fun call(invitees: List<String>, options: CallOptions = CallOptions()): Call {
        currentCoroutineContext().ensureActive()
        val callID = options.callID ?: randomID()
        if (!isID(callID)) throw BellwireException("badRequest", "a call id is 1 to 64 of A-Z a-z 0-9 _ -")
        invitees.forEach(::checkUser)
        val asked = Call(this, plannedCall(callID, invitees, options), isIncoming = false)
        val fields = jsonOf(
            "callID" to callID, "invitees" to invitees, "mode" to options.mode.wire, "media" to options.media,
            "timeout" to options.timeout, "extendedData" to options.extendedData, "ifBusy" to options.ifBusy?.wire,
            "glare" to options.glare?.wire, "push" to options.push?.json, "joinPolicy" to options.joinPolicy?.wire,
            "autoEnd" to options.autoEnd, "notReceivedCheck" to options.notReceivedCheck,
            "notReceivedAfter" to options.notReceivedAfter,
        )
        val current = requireRunning()
        val made = CompletableDeferred<Call>()
        val failed = { error: Throwable ->
            if (hadNoResponse(error)) takenBack += callID
            asked.finish(EndReasons.GONE)
        }
        val invitation = Asked("call.invite", fields, made, failed = failed) { taken(it, asked) }
        // The call becomes known before the request leaves: events about the call may come before the response.
        ask(current, invitation) { known.putIfAbsent(callID, asked) }
        try {
            return made.await()
        } catch (exception: CancellationException) {
            // At once, so that no device rings; and whatever became of the call afterwards.
            ask(current, Asked("call.cancel", jsonOf("callID" to callID), CompletableDeferred()) {})
            scope.launch {
                runCatching { made.await().hangUp() }.onFailure { if (hadNoResponse(it)) takeBack(callID) }
            }
            throw exception
        } catch (exception: BellwireException) {
            if (hadNoResponse(exception)) scope.launch { takeBack(callID) }
            throw exception
        }
    }

    private fun hadNoResponse(error: Throwable) = (error as? BellwireException)?.code == ErrorCodes.NO_RESPONSE

    /** Cancels a call whose invitation got no response, and ends the call when an invitee has answered meanwhile. */
    private suspend fun takeBack(callID: String) {
        val fields = jsonOf("callID" to callID)
        val isCancelled = runCatching { perform("call.cancel", fields).call?.state == CallState.ENDED }.getOrDefault(false)
        if (!isCancelled) runCatching { perform("call.end", fields) }
        takenBack -= callID
    }

    /** Returns the call of a response to an invitation. */
    private fun taken(response: Response, asked: Call): Call {
        val snapshot = response.call ?: return asked
        // With `Glare.MERGE` the response may name the invitee's call.
        val call = if (snapshot.callID == asked.id) asked else known[snapshot.callID] ?: adopt(snapshot, isIncoming = false)
        if (call !== asked) asked.finish(EndReasons.GONE)
        call.invited = readInvited(response)
        call.learn(response.body["mediaSession"])
        if (snapshot.revision > call.snapshot.revision) call.update(snapshot)
        return call
    }

    /** `call.join`: joins a call by its id (advanced calls). */
    public suspend fun join(callID: String, extendedData: String? = null): Call {
        if (!isID(callID)) throw BellwireException("badRequest", "a call id is 1 to 64 of A-Z a-z 0-9 _ -")
        val current = requireRunning()
        val joined = CompletableDeferred<Call>()
        val asked = Asked("call.join", jsonOf("callID" to callID, "extendedData" to extendedData), joined) { response ->
            val call = known[callID] ?: adopt(response.call ?: throw noCall(), isIncoming = false)
            call.learn(response.body["mediaSession"])
            call
        }
        ask(current, asked)
        return joined.await()
    }

    /**
     * Returns the call with this id that rings here or in which this device takes part, as after a push; null when
     * there is none. Connects, and asks the service, so that a connection that was lost unseen, as in a phone that
     * slept, is replaced. Throws `noResponse` when there is no connection within the time limit of a request, or no
     * response.
     */
    public suspend fun find(callID: String): Call? {
        networkChanged()
        withTimeoutOrNull(configuration.requestTimeout) { connect() }
            ?: throw BellwireException(ErrorCodes.NO_RESPONSE, problem ?: "the service did not answer")
        try {
            get(callID)
        } catch (exception: BellwireException) {
            if (exception.code != ErrorCodes.CALL_NOT_FOUND) throw exception
        }
        return known[callID]
    }

    /** `call.get`: returns a call's current state. This user must be a present or past member. */
    public suspend fun get(callID: String): CallSnapshot =
        perform("call.get", jsonOf("callID" to callID)).call ?: throw noCall()

    /** `call.trace`: returns a call's timeline, which shows why a phone did or did not ring (docs/protocol.md, section 6). */
    public suspend fun trace(callID: String): Trace {
        val response = perform("call.trace", jsonOf("callID" to callID))
        val entries = readObjects(response.body["entries"]).mapNotNull { entry ->
            TraceEntry(
                time = entry.integer("time") ?: return@mapNotNull null,
                at = entry.integer("at") ?: return@mapNotNull null,
                coordinator = entry.text("coordinator") ?: return@mapNotNull null,
                kind = entry.text("kind") ?: return@mapNotNull null,
                fields = entry,
            )
        }
        return Trace(response.call ?: throw noCall(), entries, response.body.integer("omitted") ?: 0)
    }

    /** `call.query`: returns this user's calls, newest first, 1 to 100 per page. `cursor`: of the page before. */
    public suspend fun history(count: Int? = null, cursor: String? = null): CallPage {
        val body = perform("call.query", jsonOf("count" to count, "cursor" to cursor)).body
        return CallPage(readCalls(body["calls"]), body.text("cursor")?.takeIf { it != "0" })
    }

    // MARK: Requests that are not about calls

    /**
     * `message.send`: sends a peer message to all devices of a user, any JSON value of at most 32 KiB. Returns when the
     * service has stored the message; `receipts` tells its delivery or expiry.
     *
     * @param ttl The seconds after which an undelivered message expires, 1 to 600; 30 at the service when null.
     * @param ordered Whether the recipient's app gets this message after all earlier ordered messages of this client.
     */
    public suspend fun send(
        to: String,
        data: JsonElement,
        ttl: Int? = null,
        ordered: Boolean = false,
        messageID: String = randomID(),
    ): SentMessage {
        checkUser(to)
        checkSize(data)
        val fields = jsonOf("messageID" to messageID, "to" to to, "data" to data, "ttl" to ttl)
        val body = perform("message.send", fields, ordered).body
        return SentMessage(messageID, body.integer("time") ?: 0, body.text("state") ?: "sent")
    }

    /** `user.query`: returns the profiles of 1 to 100 users, and whether they are online. */
    public suspend fun users(userIDs: List<String>): Users {
        val body = perform("user.query", jsonOf("userIDs" to userIDs)).body
        return Users(readObjects(body["users"]).mapNotNull(::readProfile), readUserErrors(body["errors"]))
    }

    /** `user.update`: changes this user's profile. Null leaves a field unchanged; an empty text removes the field. */
    public suspend fun update(name: String? = null, avatarURL: String? = null, extendedData: String? = null): UserProfile {
        val fields = jsonOf("name" to name, "avatarURL" to avatarURL, "extendedData" to extendedData)
        val profile = perform("user.update", fields).body["user"] as? JsonObject
        return profile?.let(::readProfile) ?: UserProfile(user, online = true)
    }

    /**
     * `user.block`: that user's invitations and peer messages no longer reach this user. Returns all users that this
     * user blocks.
     */
    public suspend fun block(userID: String): List<String> =
        readUsers(perform("user.block", jsonOf("userID" to userID)).body["blocked"])

    /** `user.unblock`: returns all users that this user still blocks. */
    public suspend fun unblock(userID: String): List<String> =
        readUsers(perform("user.unblock", jsonOf("userID" to userID)).body["blocked"])

    /** `user.blockList`: returns all users that this user blocks. */
    public suspend fun blockedUsers(): List<String> = readUsers(perform("user.blockList", jsonOf()).body["blocked"])

    /**
     * `push.register`: registers this device for pushes while the app does not run (docs/protocol.md, section 7). The
     * app calls this function after each connect and when its token changes.
     *
     * @param app The name of the app in the operator's push settings; needed where the settings have several apps.
     */
    public suspend fun registerPush(platform: Platform, token: String, app: String? = null) {
        perform("push.register", jsonOf("platform" to platform.wire, "token" to token, "app" to app))
    }

    /** `push.unregister`: ends the registrations of this device, or only the named. */
    public suspend fun unregisterPush(platform: Platform? = null, app: String? = null) {
        perform("push.unregister", jsonOf("platform" to platform?.wire, "app" to app))
    }

    /**
     * Sends any request of docs/protocol.md, section 2, for requests without a function of their own. Returns the whole
     * response.
     */
    public suspend fun request(type: String, fields: JsonObject): JsonObject = perform(type, fields).body

    internal suspend fun perform(type: String, fields: JsonObject, isOrdered: Boolean = false): Response {
        val answer = CompletableDeferred<Response>()
        ask(requireRunning(), Asked(type, fields, answer, isOrdered) { it })
        return answer.await()
    }

    /** A request of the app. `taken` makes the app's answer of the response, and `failed` is called else; on the loop. */
    private inner class Asked<Answer>(
        private val type: String,
        private val fields: JsonObject,
        private val answer: CompletableDeferred<Answer>,
        val isOrdered: Boolean = false,
        private val failed: (Throwable) -> Unit = {},
        private val taken: (Response) -> Answer,
    ) {
        init {
            checkDepth(fields)
        }

        fun request(id: String) = Request(JsonObject(fields + jsonOf("type" to type, "id" to id)))

        /** Completes the answer after all results of the same event, so that the caller sees the call's new state. */
        fun settle(outcome: Result<Response>) {
            val result = outcome.onFailure { failed(it) }.mapCatching(taken)
            completions += { result.fold({ answer.complete(it) }, { answer.completeExceptionally(it) }) }
        }

        fun giveUp() = answer.completeExceptionally(disconnected())
    }

    /** Sends a request, and calls `before` just before, on the loop. */
    private fun ask(current: Running, asked: Asked<*>, before: () -> Unit = {}) {
        val isPosted = current.loop.post {
            if (current.driver.isStopped) {
                asked.giveUp()
            } else {
                before()
                requestCount += 1
                val id = "$requestPrefix-$requestCount"
                outcomes[id] = asked
                current.driver.send(asked.request(id), asked.isOrdered)
            }
        }
        if (!isPosted) asked.giveUp()
    }

    internal fun signal(signal: JsonObject) {
        checkDepth(signal)
        val current = requireRunning()
        current.loop.post { current.driver.signal(signal) }
    }

    private fun requireRunning(): Running =
        running ?: throw BellwireException("notConnected", "call connect() first")

    private fun disconnected() = BellwireException("disconnected", "the client is disconnected")

    private fun noCall() = BellwireException("internal", "the response brought no call")

    /** The call is over on this device. */
    internal fun forget(call: Call) {
        known.remove(call.id, call)
        incoming.withdraw { it === call }
        resumed.withdraw { it === call }
    }

    /** The call as it will be when nothing goes wrong. Any other state of an invitee then counts as a change. */
    private fun plannedCall(callID: String, invitees: List<String>, options: CallOptions): CallSnapshot {
        val own = Member(user, MemberState.ACCEPTED, updatedAt = 0, device = device)
        return CallSnapshot(
            callID = callID, revision = 0, mode = options.mode, state = CallState.RINGING, inviter = user, createdAt = 0,
            timeout = (options.timeout ?: 60).toLong(), media = options.media, extendedData = options.extendedData,
            members = listOf(own) + invitees.map { Member(it, MemberState.INVITING, updatedAt = 0) },
        )
    }

    private fun adopt(snapshot: CallSnapshot, isIncoming: Boolean): Call {
        val call = Call(this, snapshot, isIncoming)
        call.learn(sessions[call.id])
        known[call.id] = call
        return call
    }

    // MARK: News of the driver

    private inner class Host : DriverHost {
        lateinit var running: Running

        override fun told(told: Told) {
            when (told) {
                is Told.Online -> {
                    log.info("the service knows the device")
                    lastProblem = null
                    standing.value = ConnectionState.CONNECTED
                    val connected = running.isConnected
                    completions += { connected.complete(Unit) }
                }
                is Told.Offline -> {
                    running.isConnected = CompletableDeferred()
                    standing.value = ConnectionState.RECONNECTING
                }
                is Told.OfWelcome -> welcomed(told.welcome)
                is Told.Event -> follow(told.event.call, told.event.missed)
                is Told.Snapshot -> follow(told.call, false)
                is Told.InvitationExpired -> known[told.call.callID]?.finish(EndReasons.TIMEOUT)
                is Told.Gone -> known[told.call.callID]?.finish(EndReasons.GONE)
                is Told.OfSignal -> known[told.signal.callID]?.signalled(told.signal)
                is Told.OfMessage -> messageHub.tell(told.message)
                is Told.OfReceipt -> receiptHub.tell(told.receipt.run { Receipt(messageID, to, state == "delivered", time) })
                is Told.Error -> failed(told.error)
            }
        }

        override fun succeeded(id: String, response: Response) {
            outcomes.remove(id)?.settle(Result.success(response))
        }

        override fun failed(id: String, error: BellwireException) {
            outcomes.remove(id)?.settle(Result.failure(error))
        }

        override fun subscribed() = Unit

        override fun refused(callID: String) = log.info("call $callID is ignored: too many calls ring")

        override fun turnEnded() {
            if (!isEnding) completeAll()
        }

        override fun noToken(message: String) = errorHub.tell(BellwireException("noToken", message))

        override fun lost(failure: ConnectionFailure) {
            lastProblem = failure.message
            when {
                failure.isTakenOver -> giveUp("takenOver", failure.message, ConnectionState.TAKEN_OVER)
                // The service's own error has told the app already.
                tokenHasEnded && configuration.token == null ->
                    end(running, BellwireException("tokenExpired", failure.message), ConnectionState.TOKEN_EXPIRED)
                failure.isRefused && configuration.token == null ->
                    giveUp("refused", failure.message, ConnectionState.REFUSED)
                failure.isRefused -> {
                    standing.value = ConnectionState.REFUSED
                    errorHub.tell(BellwireException("refused", failure.message))
                }
                standing.value != ConnectionState.CONNECTING -> standing.value = ConnectionState.RECONNECTING
            }
            tokenHasEnded = false
        }

        private var tokenHasEnded = false

        private fun failed(error: BellwireException) {
            if (error.code == "tokenExpired") tokenHasEnded = true
            errorHub.tell(error)
        }

        private fun giveUp(code: String, message: String, last: ConnectionState) {
            val error = BellwireException(code, message)
            errorHub.tell(error)
            end(running, error, last)
        }

        private fun welcomed(welcome: Welcome) {
            welcome.iceServers?.let { servers = it }
            sessions = welcome.mediaSessions
            for ((callID, session) in sessions) known[callID]?.learn(session)
        }
    }

    private fun follow(snapshot: CallSnapshot, isMissed: Boolean) {
        known[snapshot.callID]?.let { return it.update(snapshot, isMissed) }
        val own = snapshot.member(user)
        if (own == null || snapshot.state == CallState.ENDED || snapshot.callID in takenBack) return
        if (own.state.isPending) {
            incoming.tell(adopt(snapshot, isIncoming = true))
        } else if (own.state == MemberState.ACCEPTED && own.device == device) {
            resumed.tell(adopt(snapshot, isIncoming = false))
        }
    }
}
