package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.future.future
import kotlinx.coroutines.launch
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import org.bellwire.transport.Transport
import java.util.concurrent.Callable
import java.util.concurrent.CompletableFuture
import java.util.concurrent.Executor
import java.util.concurrent.ForkJoinPool
import java.util.function.Consumer
import java.util.function.LongSupplier
import javax.net.ssl.SSLContext

/**
 * A client for apps in Java. Each request returns a future with the result of the function of the same name, or with a
 * `BellwireException`. An app that cancels a future gives up the wait, as a cancelled coroutine does. JSON goes in and
 * comes out as text.
 *
 * Listeners run on `executor`, each with one event after the other. A listener that throws is named in the log, and is
 * told the next event all the same.
 */
public class BellwireAsync @JvmOverloads constructor(
    public val client: BellwireClient,
    executor: Executor = ForkJoinPool.commonPool(),
) {
    private val scope = CoroutineScope(SupervisorJob() + Dispatchers.Default)
    private val listening = executor.asCoroutineDispatcher()

    private fun <T> ask(request: suspend () -> T): CompletableFuture<T> = scope.future { request() }

    /** A request without a result: the future's value is null. */
    private fun perform(request: suspend () -> Unit): CompletableFuture<Void?> = scope.future {
        request()
        null
    }

    // MARK: Requests of the client

    public fun connect(): CompletableFuture<Void?> = perform { client.connect() }

    public fun disconnect(): CompletableFuture<Void?> = perform { client.disconnect() }

    @JvmOverloads
    public fun call(invitees: List<String>, options: CallOptions = CallOptions()): CompletableFuture<Call> =
        ask { client.call(invitees, options) }

    public fun join(callID: String): CompletableFuture<Call> = ask { client.join(callID) }

    public fun find(callID: String): CompletableFuture<Call?> = ask { client.find(callID) }

    public fun get(callID: String): CompletableFuture<CallSnapshot> = ask { client.get(callID) }

    public fun trace(callID: String): CompletableFuture<Trace> = ask { client.trace(callID) }

    @JvmOverloads
    public fun history(count: Int? = null, cursor: String? = null): CompletableFuture<CallPage> =
        ask { client.history(count, cursor) }

    @JvmOverloads
    public fun send(
        to: String,
        json: String,
        ttl: Int? = null,
        ordered: Boolean = false,
    ): CompletableFuture<SentMessage> = ask { client.send(to, parse(json), ttl, ordered) }

    public fun users(userIDs: List<String>): CompletableFuture<Users> = ask { client.users(userIDs) }

    public fun update(name: String?, avatarURL: String?, extendedData: String?): CompletableFuture<UserProfile> =
        ask { client.update(name, avatarURL, extendedData) }

    public fun block(userID: String): CompletableFuture<List<String>> = ask { client.block(userID) }

    public fun unblock(userID: String): CompletableFuture<List<String>> = ask { client.unblock(userID) }

    public fun blockedUsers(): CompletableFuture<List<String>> = ask { client.blockedUsers() }

    @JvmOverloads
    public fun registerPush(platform: Platform, token: String, app: String? = null): CompletableFuture<Void?> =
        perform { client.registerPush(platform, token, app) }

    @JvmOverloads
    public fun unregisterPush(platform: Platform? = null, app: String? = null): CompletableFuture<Void?> =
        perform { client.unregisterPush(platform, app) }

    /** `fields`: a JSON object. The future's value is the whole response, as JSON. */
    public fun request(type: String, fields: String): CompletableFuture<String> = ask {
        val parsed = parse(fields) as? JsonObject ?: throw BellwireException("badRequest", "fields are a JSON object")
        client.request(type, parsed).toString()
    }

    // MARK: Requests of a call

    public fun accept(call: Call): CompletableFuture<Void?> = perform { call.accept() }

    @JvmOverloads
    public fun reject(call: Call, reason: String = "declined"): CompletableFuture<Void?> =
        perform { call.reject(reason) }

    @JvmOverloads
    public fun cancel(call: Call, invitees: List<String>? = null): CompletableFuture<List<UserError>> =
        ask { call.cancel(invitees) }

    public fun add(call: Call, invitees: List<String>): CompletableFuture<Invited> = ask { call.add(invitees) }

    public fun join(call: Call): CompletableFuture<Void?> = perform { call.join() }

    public fun quit(call: Call): CompletableFuture<Void?> = perform { call.quit() }

    @JvmOverloads
    public fun end(call: Call, reason: String? = null): CompletableFuture<Void?> = perform { call.end(reason) }

    public fun hangUp(call: Call): CompletableFuture<Void?> = perform { call.hangUp() }

    /** The future is complete when the signal is on its way, not when it has arrived. */
    @JvmOverloads
    public fun signal(call: Call, json: String, to: List<String>? = null): CompletableFuture<Void?> =
        perform { call.signal(parse(json), to) }

    public fun renewMediaSession(call: Call): CompletableFuture<MediaSession> = ask { call.renewMediaSession() }

    public fun report(call: Call, milestones: Map<String, Long>): CompletableFuture<Void?> =
        perform { call.report(milestones) }

    private fun parse(json: String): JsonElement =
        // A text that is no JSON makes the parser throw exceptions of several kinds.
        runCatching { Json.parseToJsonElement(json) }.getOrElse { throw BellwireException("badRequest", "no JSON") }

    // MARK: Events

    /** Ends a listener. */
    public fun interface Listening : AutoCloseable {
        override fun close()
    }

    public fun onState(listener: Consumer<ConnectionState>): Listening = follow(client.state, listener)

    public fun onIncomingCall(listener: Consumer<Call>): Listening = follow(client.incomingCalls, listener)

    public fun onResumedCall(listener: Consumer<Call>): Listening = follow(client.resumedCalls, listener)

    public fun onMessage(listener: Consumer<PeerMessage>): Listening = follow(client.messages, listener)

    public fun onReceipt(listener: Consumer<Receipt>): Listening = follow(client.receipts, listener)

    public fun onError(listener: Consumer<BellwireException>): Listening = follow(client.errors, listener)

    /** `ended` is told the call's `endReason` after the last change. */
    public fun onChange(call: Call, changed: Consumer<CallChange>, ended: Consumer<String>): Listening =
        follow(call.changes, changed) { ended.accept(call.endReason ?: EndReasons.GONE) }

    /** The listener is told the newest state of the call; states that a later one has replaced may be left out. */
    public fun onSnapshot(call: Call, listener: Consumer<CallSnapshot>): Listening = follow(call.snapshots, listener)

    public fun onSignal(call: Call, listener: Consumer<CallSignal>): Listening = follow(call.signals, listener)

    private fun <T> follow(flow: Flow<T>, listener: Consumer<T>, ended: () -> Unit = {}): Listening {
        val job = scope.launch(listening) {
            flow.collect { guarded { listener.accept(it) } }
            guarded(ended)
        }
        return Listening { job.cancel() }
    }

    private fun guarded(tell: () -> Unit) {
        try {
            tell()
        } catch (failure: Throwable) {
            client.log.warning("a listener has thrown", failure)
        }
    }

    /** Makes a client, with the settings of `BellwireClient.Configuration` under their names. */
    public class Builder(private val url: String, private val user: String) {
        private var device: String? = null
        private var token: (suspend () -> String)? = null
        private var sslContext: SSLContext? = null
        private var transport: Transport? = null
        private var topicRoot = "bellwire/v1"
        private var keepAlive = 90
        private var requestTimeout = 30_000L
        private var qos = 0
        private var clock: () -> Long = { System.nanoTime() / 1_000_000 }
        private var log: BellwireLog? = null
        private var executor: Executor = ForkJoinPool.commonPool()

        public fun device(device: String): Builder = apply { this.device = device }

        /** The client calls the provider on a thread of its own; the provider may block. */
        public fun token(provider: Callable<String>): Builder = apply { token = { provider.call() } }

        public fun sslContext(sslContext: SSLContext): Builder = apply { this.sslContext = sslContext }

        public fun transport(transport: Transport): Builder = apply { this.transport = transport }

        public fun topicRoot(topicRoot: String): Builder = apply { this.topicRoot = topicRoot }

        public fun keepAlive(seconds: Int): Builder = apply { keepAlive = seconds }

        public fun requestTimeout(milliseconds: Long): Builder = apply { requestTimeout = milliseconds }

        public fun qos(qos: Int): Builder = apply { this.qos = qos }

        public fun clock(clock: LongSupplier): Builder = apply { this.clock = { clock.asLong } }

        public fun log(log: BellwireLog): Builder = apply { this.log = log }

        /** Sets the executor on which listeners run. */
        public fun executor(executor: Executor): Builder = apply { this.executor = executor }

        @Throws(BellwireException::class)
        public fun build(): BellwireAsync = BellwireAsync(
            BellwireClient(
                BellwireClient.Configuration(
                    url, user, device, token, sslContext, transport, topicRoot, keepAlive, requestTimeout, qos, clock,
                    log,
                ),
            ),
            executor,
        )
    }
}
