package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.launch
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.bellwire.machine.Action
import org.bellwire.machine.ClientMachine
import org.bellwire.machine.MachineConfiguration
import org.bellwire.machine.Told
import org.bellwire.transport.Connection
import org.bellwire.transport.ConnectionFailure
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.Transport
import java.util.concurrent.Semaphore
import kotlin.random.Random

/** The duration in milliseconds after which a connection counts as good, so that the next attempt comes soon. */
private const val GOOD_CONNECTION = 10_000L

/** The waits between attempts to reach the broker, in milliseconds. The wait doubles from the first to the longest. */
private const val FIRST_PAUSE = 250L
private const val LONGEST_PAUSE = 8_000L

/** The wait in milliseconds before the client asks a failed token provider again, while the current token lasts. */
private const val TOKEN_RETRY = 5_000L

/** The time limit for the app's token provider, in milliseconds. */
private const val TOKEN_TIMEOUT = 30_000L

/** The time in milliseconds for which the next connection takes an unused token without asking the provider again. */
private const val TOKEN_FRESHNESS = 60_000L

/** The number of unsent bytes beyond which the client drops signals; signals may be lost. */
private const val SIGNAL_BACKLOG = 262_144

/** The characters of messages that may wait for the loop. */
private const val MESSAGE_ROOM = 1_048_576

/** The user and password of an address, and its query. */
private val secretsOfAddress = Regex("(?<=//)[^/]*@|[?#].*")

/** A question to the token provider. `until`: the end of the time limit, by the loop's clock. */
private class TokenQuestion(var answer: (Result<String>) -> Unit, val until: Long) {
    var limit: Timer? = null
}

private const val TAKEN_OVER = "another client has connected under this device id"

internal class DriverSettings(
    /** The addresses of the deployment's brokers, at least one. */
    val urls: List<String>,
    val user: String,
    val device: String,
    /** The topics' root, `bellwire/v1` by default. */
    val topicRoot: String,
    /** Seconds. */
    val keepAlive: Int,
    val token: (suspend () -> String)?,
    val transport: Transport,
    /** Milliseconds. */
    val requestTimeout: Long,
    val qos: Int,
    val log: ClientLog = ClientLog(null),
)

/** The receiver of the driver's results, on the driver's loop. */
internal interface DriverHost {
    fun told(told: Told)
    fun succeeded(id: String, response: Response)
    fun failed(id: String, error: BellwireException)

    /** An attempt to connect failed, or a connection is lost. */
    fun lost(failure: ConnectionFailure)

    /** The connection to the broker is established, and the broker delivers messages to this device. */
    fun subscribed()

    /** The token provider failed, before a connection or before the end of the current token. */
    fun noToken(message: String)

    /** The machine ignored a message about a call, because too many calls ring. */
    fun refused(callID: String)

    /** All results of the same event have been told. */
    fun turnEnded()
}

/**
 * Owns the machine and the connection, and performs the machine's actions. All functions are called on the loop.
 */
internal class Driver(
    private val settings: DriverSettings,
    private val loop: Loop,
    private val host: DriverHost,
) {
    private val machine = ClientMachine(
        settings.user, settings.device,
        MachineConfiguration(
            requestTimeout = settings.requestTimeout, signalStream = randomID(), renewsTokens = settings.token != null,
        ),
    )
    private val log = settings.log
    private val level = "${encodeUser(settings.user)}/${settings.device}"
    private val upTopic = "${settings.topicRoot}/up/$level"
    private val presenceTopic = "${settings.topicRoot}/presence/$level"
    private val downTopics = listOf(
        "${settings.topicRoot}/down/$level", "${settings.topicRoot}/down/${encodeUser(settings.user)}",
    )

    /** The brokers' addresses in an order of this client. */
    private val urls = settings.urls.shuffled()
    private var connections = 0
    private var connection: Connection? = null

    /** The number of the current connection; events of former connections are ignored. */
    private var current = 0

    /** The token of the last connection; null before the first, and after a token that has ended or was refused. */
    private var token: String? = null

    /** A token of the provider that no connection has used yet, and the time of its arrival. */
    private var unusedToken: Pair<String, Long>? = null

    /** The open question to the token provider; null when the provider owes no answer in time. */
    private var asked: TokenQuestion? = null
    var isStopped = false
        private set
    private var startedAt = 0L
    private var pause = FIRST_PAUSE

    /** The timer of the next attempt to connect; null while no attempt is scheduled. */
    private var retry: Timer? = null

    /** The timer of the machine's next deadline. */
    private var deadline: Timer? = null

    /** The timer of the next question to the token provider. */
    private var question: Timer? = null
    private val rivals = RivalWatch()

    /** Whether the broker has accepted the current connection. */
    private var wasAccepted = false

    /** Whether the service has sent an error on this connection, such as the reason of the coming disconnection. */
    private var isExplained = false

    /** Whether the transport has thrown on this connection. */
    private var hasThrown = false

    /** Runs the app's token provider, which may block. */
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.IO)

    /** The room for messages that wait for the loop, in characters. A transport waits while there is none. */
    private val room = Semaphore(MESSAGE_ROOM)

    /** Begins to connect. */
    fun start() = attempt()

    /** Says goodbye to the service and closes the connection. Unanswered requests fail with `disconnected`. */
    fun stop() {
        if (isStopped) return
        perform(machine.loggedOut())
        host.turnEnded()
        isStopped = true
        closeConnection()
        for (timer in listOf(retry, question, deadline, asked?.limit)) timer?.cancel()
        scope.cancel()
    }

    /** `isOrdered`: as in `ClientMachine.send`. */
    fun send(request: Request, isOrdered: Boolean = false) {
        log.debug { "request ${request.id} begins: ${request.type}" }
        turn { now -> machine.send(request, now, isOrdered) }
    }

    /** Drops the signal when too much data waits to be sent. */
    fun signal(signal: JsonObject) {
        if (isStopped || (guarded { it.backlog } ?: 0) > SIGNAL_BACKLOG) return
        turn { now -> machine.signal(signal, now) }
    }

    /**
     * The device has another network, or comes to the foreground: the client does not wait for its timers, and does
     * what has become due by the clock.
     */
    fun networkChanged() {
        if (isStopped) return
        // The loop's timers may have stood still while the device slept, so the clock decides whether the question to
        // the token provider is over.
        asked?.takeIf { it.until <= loop.now }?.let(::giveUp)
        // A question that began over the former network may hang: the last token opens the connection at once.
        if (connection == null && token != null) asked?.let(::giveUp)
        if (retry != null) {
            retry?.cancel()
            attempt()
        }
        guarded { it.ask() }
        turn { emptyList() }
    }

    // MARK: Connections

    private fun attempt() {
        retry = null
        if (settings.token == null) return open()
        askForToken { result ->
            result.onSuccess {
                token = it
                open()
            }
            result.onFailure {
                host.noToken(it.message ?: it.toString())
                // The token of the last connection may still be good, while the provider cannot be reached.
                if (token != null) open() else lost(ConnectionFailure("no token: ${it.message ?: it}"))
            }
        }
    }

    private fun open() {
        val url = urls[connections % urls.size]
        connections += 1
        startedAt = loop.now
        // The session belongs to this connection alone, and so does the will that names the session (section 1).
        val session = randomID()
        wasAccepted = false
        isExplained = false
        hasThrown = false
        current += 1
        val number = current
        /** Handles an event of the connection on the loop, unless the driver has given the connection up. */
        fun whileCurrent(act: () -> Unit) {
            loop.post { if (!isStopped && number == current) act() }
        }
        val connecting = ConnectionSettings(
            url = url, clientID = level, username = encodeUser(settings.user), password = token,
            keepAlive = settings.keepAlive, willTopic = presenceTopic,
            willPayload = jsonOf("online" to false, "reason" to "lost", "session" to session).toString(),
            subscriptions = downTopics, qos = settings.qos,
        )
        val handlers = object : ConnectionHandlers {
            override fun accepted() = whileCurrent {
                wasAccepted = true
                turn { machine.connected(session) }
            }

            override fun subscribed() = whileCurrent {
                log.debug { "is subscribed at ${address(url)}" }
                host.subscribed()
                turn { now -> machine.subscribed(now) }
            }

            override fun message(payload: String) {
                val size = payload.length.coerceIn(1, MESSAGE_ROOM)
                room.acquireUninterruptibly(size)
                val isPosted = loop.post {
                    room.release(size)
                    if (isStopped || number != current) return@post
                    val message = readDown(payload)
                    if (message == null) log.debug { "ignores a message of $size characters" }
                    if (message != null) turn { now -> machine.received(message, now) }
                }
                if (!isPosted) room.release(size)
            }

            override fun closed(failure: ConnectionFailure) = whileCurrent {
                // A broker or a proxy may quote what the client sent.
                val secret = token?.ifEmpty { null }
                val text = if (secret == null) failure.message else failure.message.replace(secret, "…")
                log.info("the connection to ${address(url)} has ended: $text")
                lost(failure)
            }
        }
        log.debug { "connects to ${address(url)}" }
        try {
            connection = settings.transport.connect(connecting, handlers)
        } catch (failure: Throwable) {
            log.warning("the transport refuses to connect to ${address(url)}", failure)
            lost(ConnectionFailure(failure.message ?: failure.toString()))
        }
    }

    /** Replaces the connection by another with a new session, and perhaps a new token, without telling the app. */
    private fun reopen() {
        machine.renewing()
        closeConnection()
        attempt()
    }

    private fun closeConnection() {
        current += 1
        guarded { it.close() }
        connection = null
    }

    /** Uses the connection. A transport of the app that throws must not stop the client: what it was asked is lost. */
    private fun <T> guarded(use: (Connection) -> T): T? = connection?.let { used ->
        runCatching { use(used) }.onFailure {
            // A transport that throws may do so at each message.
            if (!hasThrown) log.warning("the transport has thrown", it)
            hasThrown = true
        }.getOrNull()
    }

    /** The address without what may be a secret: the app's own transport may take credentials and a query. */
    private fun address(url: String) = url.replace(secretsOfAddress, "")

    private fun lost(failure: ConnectionFailure) {
        if (isStopped) return
        current += 1
        connection = null
        question?.cancel()
        val isTakenOver = rivals.isTakenOver(failure, loop.now - startedAt, wasAccepted && !isExplained)
        if (failure.isRefused) token = null
        turn { machine.disconnected(failure.message) }
        host.lost(if (isTakenOver) ConnectionFailure(TAKEN_OVER, isTakenOver = true) else failure)
        if (isStopped) return
        if (wasAccepted && loop.now - startedAt >= GOOD_CONNECTION) pause = FIRST_PAUSE
        // The wait is shortened at random by up to a half, so that the devices of a restarted broker do not all
        // reconnect at once.
        retry = loop.after((pause * (1 - Random.nextDouble() / 2)).toLong()) { if (!isStopped) attempt() }
        pause = minOf(pause * 2, LONGEST_PAUSE)
    }

    // MARK: Tokens

    /**
     * Calls `answer` once, on the loop. When a later question comes before the answer, the later question gets the
     * answer instead: the provider is asked for one token at a time.
     */
    private fun askForToken(answer: (Result<String>) -> Unit) {
        val provider = settings.token ?: return
        val (unused, arrivedAt) = unusedToken ?: (null to 0L)
        unusedToken = null
        if (unused != null && loop.now - arrivedAt < TOKEN_FRESHNESS) return answer(Result.success(unused))
        asked?.let {
            it.answer = answer
            return
        }
        val question = TokenQuestion(answer, loop.now + TOKEN_TIMEOUT)
        asked = question
        question.limit = loop.after(TOKEN_TIMEOUT) { giveUp(question) }
        scope.launch {
            val result = runCatching { provider() }
            loop.post {
                // An app that asks a person for the token may be late. The late token is for the next attempt.
                if (asked === question) take(result) else result.onSuccess { unusedToken = it to loop.now }
            }
        }
    }

    private fun giveUp(question: TokenQuestion) {
        if (asked !== question) return
        take(Result.failure(Exception("the token provider returned no token within ${TOKEN_TIMEOUT / 1_000} s")))
    }

    /** Ends the open question with this result. */
    private fun take(result: Result<String>) {
        val question = asked ?: return
        asked = null
        question.limit?.cancel()
        if (isStopped) return
        // The exception's own text is the app's, and may have a secret.
        result.onFailure { log.info("the token provider failed: ${it.javaClass.name}") }
        question.answer(result)
    }

    /** The connection stays until the provider has answered: the device is reached meanwhile. */
    private fun renewSession() {
        if (settings.token == null) return reopen()
        val number = current
        askForToken { result ->
            // A provider that fails is not asked again for this connection.
            (result.getOrNull() ?: token)?.let { unusedToken = it to loop.now }
            if (number == current && connection != null) reopen()
        }
    }

    private fun renewToken() {
        val number = current
        askForToken { result ->
            result.onSuccess { unusedToken = it to loop.now }
            // When the connection was lost meanwhile, the next attempt uses the token.
            if (number != current || connection == null) return@askForToken
            result.onSuccess { reopen() }
            // The current token still lasts a while.
            result.onFailure { host.noToken(it.message ?: it.toString()) }
            result.onFailure { question = loop.after(TOKEN_RETRY) { if (!isStopped) renewToken() } }
        }
    }

    // MARK: The machine

    /** Lets the machine act, does all that is due, and sets the timer for the next deadline. */
    private fun turn(act: (now: Long) -> List<Action>) {
        if (isStopped) return
        perform(act(loop.now))
        val now = loop.now
        if ((machine.nextDeadline ?: Long.MAX_VALUE) <= now) {
            val due = machine.timerFired(now)
            perform(due)
            // A resend may mean that the connection is dead. The keep-alive would detect a dead connection too late, so
            // the driver pings the broker now.
            if (due.any { it is Action.Publish && "id" in it.message }) guarded { it.ask() }
        }
        host.turnEnded()
        deadline?.cancel()
        val next = machine.nextDeadline
        if (next == null || isStopped) return
        deadline = loop.after(maxOf(next - loop.now, 1)) { turn { emptyList() } }
    }

    private fun perform(actions: List<Action>) {
        for (action in actions) {
            when (action) {
                is Action.Publish -> publish(action.message)
                is Action.PublishPresence -> guarded { it.publish(presenceTopic, action.message.toString()) }
                is Action.Deliver -> {
                    val error = (action.told as? Told.Error)?.error
                    if (error != null) isExplained = true
                    // The broker is about to end the connection: the next one needs another token.
                    if (error?.code == "tokenExpired" || error?.code == "tokenRevoked") token = null
                    host.told(action.told)
                }
                is Action.Succeed -> {
                    log.debug { "request ${action.id} has succeeded" }
                    host.succeeded(action.id, action.response)
                }
                is Action.Fail -> {
                    log.debug { "request ${action.id} has failed: ${action.error.code}" }
                    host.failed(action.id, action.error)
                }
                is Action.Refuse -> host.refused(action.callID)
                // The connection must not end within this turn: the following actions belong to the current connection.
                is Action.RenewSession -> loop.post { if (!isStopped && connection != null) renewSession() }
                is Action.EndTakenOver -> loop.post {
                    closeConnection()
                    lost(ConnectionFailure(TAKEN_OVER, isTakenOver = true))
                }
                is Action.RenewToken -> loop.post { if (!isStopped && connection != null) renewToken() }
            }
        }
    }

    private fun publish(message: JsonObject) {
        val id = message["id"]?.jsonPrimitive?.content
        val expiry = machine.expiry(id, loop.now)
        val payload = message.toString()
        val isTooLarge = payload.toByteArray().size > Limits.REQUEST
        if (!isTooLarge && guarded { it.publish(upTopic, payload, expiry) } != false || id == null) return
        // The message can never be sent, so the request fails now instead of at its time limit.
        val text = "the request is larger than ${Limits.REQUEST} bytes, or than the broker accepts"
        perform(machine.received(Response(id, error = BellwireException("tooLarge", text)), loop.now))
    }
}

/**
 * The longest life of a displaced connection, in milliseconds. Two clients under the same device id displace each other
 * at once.
 */
private const val SOON = 3_000

/**
 * The number of displacements after which a client gives up. The client that connected first reaches this number first.
 */
private const val OFTEN = 3

/** Detects another client under this device id, also at brokers that do not report another client. */
internal class RivalWatch {
    private var displaced = 0

    /**
     * Returns whether another client has taken this device's connection. The connection or attempt ended after `lasted`
     * milliseconds. `isUnexplained`: the broker had accepted the connection, and no message announced the end. A broker
     * that is about to start, or a proxy in front of a broker that is down, closes attempts silently.
     */
    fun isTakenOver(failure: ConnectionFailure, lasted: Long, isUnexplained: Boolean): Boolean {
        if (failure.isTakenOver) return true
        if (failure.isRefused || !failure.isDropped) {
            displaced = 0
            return false
        }
        if (!isUnexplained) return false
        displaced = if (lasted < SOON) displaced + 1 else 1
        return displaced >= OFTEN
    }
}
