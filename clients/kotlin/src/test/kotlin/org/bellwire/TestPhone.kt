package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonObject
import java.io.File
import java.security.KeyStore
import java.security.cert.CertificateFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory
import kotlin.system.exitProcess

/*
 * An app with the Kotlin SDK for tests from outside (Tests/IntegrationTests/harness/kotlin.py). Orders and reports are
 * lines of JSON. Only the program of the test uses what is public.
 */

fun main(args: Array<String>) {
    val settings = Json.parseToJsonElement(args[0]).jsonObject
    val phone = TestPhone(settings)
    for (line in generateSequence(::readLine)) phone.take(Json.parseToJsonElement(line).jsonObject)
    runBlocking { phone.client.disconnect() }
    exitProcess(0)
}

private class TestPhone(settings: JsonObject) {
    private val tokenFile = settings.text("tokenFile")
    val client = BellwireClient(
        BellwireClient.Configuration(
            url = settings.text("url")!!, user = settings.text("user")!!, device = settings.text("device"),
            token = tokenFile?.let { { File(it).readText().trim() } }, sslContext = settings.text("caFile")?.let(::trusting),
            keepAlive = settings.integer("keepAlive")?.toInt() ?: 90,
        ),
    )
    private val scope = CoroutineScope(Dispatchers.Default)
    private val calls = java.util.concurrent.ConcurrentHashMap<String, Call>()

    init {
        follow(client.state) { tell("state", "state" to it.name) }
        follow(client.incomingCalls) {
            follow(it)
            tell("incoming", "call" to it.id, "inviter" to it.inviter, "media" to it.media)
        }
        follow(client.resumedCalls) {
            follow(it)
            tell("resumed", "call" to it.id)
        }
        follow(client.messages) { tell("message", "from" to it.from, "data" to it.data) }
        follow(client.receipts) { tell("receipt", "message" to it.messageID, "isDelivered" to it.isDelivered) }
        follow(client.errors) { tell("error", "code" to it.code, "message" to it.message) }
    }

    private fun <T> follow(flow: Flow<T>, act: (T) -> Unit) = scope.launch { flow.collect { act(it) } }

    private fun follow(call: Call) {
        calls[call.id] = call
        scope.launch {
            call.changes.collect { tell("change", "call" to call.id, "user" to it.userID, "state" to it.state.name, "reason" to it.reason) }
            tell("ended", "call" to call.id, "reason" to call.endReason, "isMissed" to call.isMissed)
        }
        follow(call.signals) { tell("signal", "call" to call.id, "from" to it.from, "data" to it.data) }
    }

    private fun tell(event: String, vararg fields: Pair<String, Any?>) {
        val line = jsonOf("event" to event, *fields).toString()
        synchronized(System.out) { println(line) }
    }

    fun take(order: JsonObject) {
        scope.launch {
            try {
                val answer = perform(order)
                tell("done", "order" to order.integer("order"), "answer" to answer)
            } catch (exception: BellwireException) {
                tell("failed", "order" to order.integer("order"), "code" to exception.code, "message" to exception.message)
            }
        }
    }

    private suspend fun perform(order: JsonObject): Any? {
        val call = order.text("call")?.let { calls[it] }
        val users = (order["users"] as? JsonArray)?.mapNotNull { it.text }.orEmpty()
        val reason = order.text("reason")
        when (val name = order.text("do")) {
            "connect" -> client.connect()
            "disconnect" -> client.disconnect()
            "call" -> return client.call(users, CallOptions(media = order.text("media"), timeout = order.integer("seconds")?.toInt())).also { follow(it) }.id
            "accept" -> call!!.accept()
            "reject" -> call!!.reject(reason ?: "declined")
            "cancel" -> call!!.cancel()
            "add" -> call!!.add(users)
            "join" -> client.join(order.text("id")!!).also { follow(it) }
            "quit" -> call!!.quit()
            "end" -> call!!.end(reason)
            "hangUp" -> call!!.hangUp()
            "signal" -> call!!.signal(order.getValue("data"))
            "send" -> return client.send(order.text("to")!!, order.getValue("data"), ordered = order.isTrue("ordered")).messageID
            "users" -> return client.users(users).users.filter { it.online }.map { it.userID }
            "history" -> return client.history().calls.map { it.callID }
            "trace" -> return client.trace(call!!.id).entries.map { it.kind }
            "push" -> client.registerPush(Platform.FCM, order.text("token")!!, order.text("app"))
            "report" -> call!!.report(order.getValue("milestones").jsonObject.mapValues { (_, time) -> time.integer!! })
            "request" -> return client.request(order.text("type")!!, order.getValue("fields").jsonObject)
            "networkChanged" -> client.networkChanged()
            "many" -> return manyCalls(users[0], order.integer("count")!!.toInt())
            else -> error("what is $name?")
        }
        return null
    }

    /** Calls a user and hangs up, again and again. Returns the heap in use after the first tenth, and at the end. */
    private suspend fun manyCalls(user: String, count: Int): JsonObject {
        fun used(): Long {
            repeat(3) { System.gc() }
            return Runtime.getRuntime().run { totalMemory() - freeMemory() }
        }
        var first = 0L
        for (number in 1..count) {
            client.call(listOf(user)).hangUp()
            if (number == count / 10) first = used()
        }
        return jsonOf("first" to first, "last" to used(), "calls" to client.calls.size)
    }
}

private fun trusting(file: String): SSLContext {
    val store = KeyStore.getInstance(KeyStore.getDefaultType()).apply { load(null) }
    File(file).inputStream().use { store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(it)) }
    val trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()).apply { init(store) }
    return SSLContext.getInstance("TLS").apply { init(null, trust.trustManagers, null) }
}
