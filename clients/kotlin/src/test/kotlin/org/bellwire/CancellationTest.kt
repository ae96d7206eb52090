package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonObject
import org.bellwire.transport.Connection
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.Transport
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.lang.reflect.Modifier
import java.util.concurrent.CompletableFuture
import kotlin.concurrent.thread
import kotlin.coroutines.Continuation
import kotlin.random.Random

/** Coroutines and threads that are cancelled wherever they wait. */
class CancellationTest {
    /** Every function of the client that waits. */
    private val ofTheClient: Map<String, suspend (BellwireClient) -> Unit> = mapOf(
        "connect" to { it.connect() },
        "call" to { it.call(listOf("bob")) },
        "join" to { it.join("c") },
        "find" to { it.find("c") },
        "get" to { it.get("c") },
        "trace" to { it.trace("c") },
        "history" to { it.history() },
        "send" to { it.send("bob", JsonPrimitive(1), ordered = true) },
        "users" to { it.users(listOf("bob")) },
        "update" to { it.update(name = "A") },
        "block" to { it.block("bob") },
        "unblock" to { it.unblock("bob") },
        "blockedUsers" to { it.blockedUsers() },
        "registerPush" to { it.registerPush(Platform.FCM, "t") },
        "unregisterPush" to { it.unregisterPush() },
        "request" to { it.request("user.query", jsonOf("userIDs" to listOf("bob"))) },
        "disconnect" to { it.disconnect() },
    )

    /** Every function of a call that waits. */
    private val ofACall: Map<String, suspend (Call) -> Unit> = mapOf(
        "accept" to { it.accept() },
        "reject" to { it.reject() },
        "cancel" to { it.cancel() },
        "add" to { it.add(listOf("carol")) },
        "join" to { it.join() },
        "quit" to { it.quit() },
        "end" to { it.end() },
        "hangUp" to { it.hangUp() },
        "renewMediaSession" to { it.renewMediaSession() },
        "report" to { it.report(mapOf("accepted" to 1L)) },
    )

    /** A function without a row above would not be tested. */
    @Test
    fun theListsHaveEveryFunctionThatWaits() {
        fun waiting(type: Class<*>) = type.declaredMethods
            .filter { Modifier.isPublic(it.modifiers) && it.parameterTypes.lastOrNull() == Continuation::class.java }
            .map { it.name }.filter { '$' !in it }.toSet()
        assertEquals(waiting(BellwireClient::class.java), ofTheClient.keys)
        assertEquals(waiting(Call::class.java), ofACall.keys)
    }

    @Test
    fun appsInJavaHaveEveryFunctionThatWaits() {
        val futures = BellwireAsync::class.java.methods
            .filter { it.returnType == CompletableFuture::class.java && !it.isSynthetic }
        val (ofCalls, others) = futures.partition { it.parameterTypes.firstOrNull() == Call::class.java }
        assertEquals(ofTheClient.keys, others.map { it.name }.toSet())
        assertEquals(ofACall.keys + "signal", ofCalls.map { it.name }.toSet())
    }

    @Test
    fun aCancelledFunctionOfACallLeavesAClientThatWorks() = leavesAClientThatWorks(
        ofACall.mapValues { (_, function) -> { client -> function(client.calls.single()) } },
    ) { it.ring() }

    @Test
    fun aCancelledFunctionLeavesAClientThatWorks() = leavesAClientThatWorks(ofTheClient) {}

    /** Lets the loop and the broker do `steps` things, cancels, and lets the rest happen. */
    private fun leavesAClientThatWorks(
        functions: Map<String, suspend (BellwireClient) -> Unit>,
        prepare: (World) -> Unit,
    ) {
        for ((name, function) in functions) {
            for (steps in 0..6) {
                val world = World()
                if (name != "connect") world.connect()
                prepare(world)
                val scope = CoroutineScope(Dispatchers.Unconfined + SupervisorJob())
                val job = scope.launch(start = CoroutineStart.UNDISPATCHED) { function(world.client) }
                repeat(steps) { world.step() }
                job.cancel()
                while (world.step()) Unit
                assertTrue("$name after $steps steps", job.isCompleted)
                world.connect()
                var users: Users? = null
                scope.launch(start = CoroutineStart.UNDISPATCHED) { users = world.client.users(listOf("bob")) }
                while (world.step()) Unit
                assertEquals("$name after $steps steps", Users(emptyList(), emptyList()), users)
                // A cancelled call is cancelled at the service, unless the call was never made.
                assertEquals("$name after $steps steps", 0, world.client.unanswered)
            }
        }
    }

    /** The client, its loop in virtual time, and a service that answers every request. */
    private class World {
        private var loop = VirtualLoop()
        private val broker = FakeBroker()
        val client = BellwireClient(
            BellwireClient.Configuration(url = "mqtt://a", user = "alice", device = "phone", transport = broker),
        ) { VirtualLoop().also { loop = it } }
        private var accepted = 0
        private val answered = mutableMapOf<FakeBroker.Link, Int>()

        fun connect() {
            val scope = CoroutineScope(Dispatchers.Unconfined + SupervisorJob())
            scope.launch(start = CoroutineStart.UNDISPATCHED) { client.connect() }
            while (step()) Unit
            assertEquals(ConnectionState.CONNECTED, client.state.value)
        }

        /** Makes a call of another user that rings here. */
        fun ring() {
            broker.last.handlers.message(
                """{"type":"event","event":"call.invited","revision":1,"time":1,"callID":"c","changes":[],""" +
                    """"call":$RINGING}""",
            )
            while (step()) Unit
            assertEquals(1, client.calls.size)
        }

        /** Does a single step. Returns false when no step is left. */
        fun step(): Boolean {
            if (loop.runOne()) return true
            val link = broker.links.lastOrNull() ?: return false
            if (accepted < broker.links.size) {
                accepted = broker.links.size
                link.accept()
                return true
            }
            val place = answered[link] ?: 0
            val (topic, payload) = link.published.getOrNull(place) ?: return false
            answered[link] = place + 1
            if ("/presence/" in topic) {
                if ("logout" !in payload) link.welcome()
            } else {
                Json.parseToJsonElement(payload).jsonObject.text("id")?.let { id ->
                    val rest = """"ok":true,"users":[],"time":1,"call":$CALL,$SESSION"""
                    link.handlers.message("""{"type":"response","id":"$id",$rest}""")
                }
            }
            return true
        }

        private companion object {
            const val RINGING = """{"callID":"c","revision":1,"mode":"advanced","state":"ringing","inviter":"bob",""" +
                """"createdAt":1,"timeout":60,"members":[""" +
                """{"userID":"bob","state":"accepted","device":"x","updatedAt":1},""" +
                """{"userID":"alice","state":"inviting","updatedAt":1}]}"""
            const val SESSION = """"mediaSession":{"server":"l","type":"livekit","url":"wss://l","room":"r",""" +
                """"token":"t","expiresAt":9}"""
            const val CALL = """{"callID":"c","revision":2,"mode":"advanced","state":"ended","inviter":"alice",""" +
                """"createdAt":1,"timeout":60,"endReason":"cancelled","members":[""" +
                """{"userID":"alice","state":"accepted","device":"phone","updatedAt":1}]}"""
        }
    }

    /** Real threads: many coroutines of many clients, cancelled and interrupted at random. */
    @Test
    fun nothingHangsWhenThreadsAreInterruptedAndClientsComeAndGo() = runBlocking(Dispatchers.Default) {
        val random = Random(1)
        val client = BellwireClient(BellwireClient.Configuration("mqtt://a", "alice", "phone", transport = Echo()))
        withTimeout(60_000) {
            repeat(300) {
                client.connect()
                val jobs: List<Job> = List(8) { launch { runCatching { client.users(listOf("bob")) } } }
                val blocked = thread {
                    runCatching { runBlocking { client.send("bob", JsonPrimitive(1)) } }
                }
                if (random.nextBoolean()) blocked.interrupt()
                jobs.shuffled(random).take(3).forEach { it.cancelAndJoin() }
                if (random.nextInt(3) == 0) client.disconnect()
                jobs.joinAll()
                blocked.join(10_000)
                assertTrue("a thread hangs", !blocked.isAlive)
            }
            client.disconnect()
        }
    }

    /** A broker and a service in the caller's thread. */
    private class Echo : Transport {
        override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection {
            val connection = object : Connection {
                override val backlog = 0

                override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
                    val json = Json.parseToJsonElement(payload).jsonObject
                    if (json.isTrue("online")) {
                        handlers.message("""{"type":"welcome","session":"${json.text("session")}","serverTime":0,"heartbeatInterval":20,"calls":[]}""")
                    }
                    json.text("id")?.let { handlers.message("""{"type":"response","id":"$it","ok":true,"users":[]}""") }
                    return true
                }

                override fun ask() = Unit
                override fun close() = Unit
            }
            handlers.accepted()
            handlers.subscribed()
            return connection
        }
    }
}
