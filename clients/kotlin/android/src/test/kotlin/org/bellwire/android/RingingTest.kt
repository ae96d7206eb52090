package org.bellwire.android

import android.app.Activity
import android.app.Notification
import android.app.NotificationManager
import android.content.Context
import android.content.Intent
import android.net.Uri
import android.os.Handler
import android.os.SystemClock
import android.telecom.Connection
import android.telecom.ConnectionRequest
import android.telecom.DisconnectCause
import android.telecom.PhoneAccountHandle
import android.telecom.TelecomManager
import android.util.Log
import androidx.core.app.NotificationManagerCompat
import androidx.core.content.ContextCompat
import com.google.firebase.messaging.RemoteMessage
import com.sun.net.httpserver.HttpServer
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.bellwire.BellwireClient
import org.bellwire.LogLevel
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.Transport
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Before
import org.junit.Test
import java.net.InetSocketAddress
import java.util.concurrent.CountDownLatch
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

class CallActivity : Activity()

/** Pushes in every order, with stand-ins for Android (Tests/AndroidStandIns). */
class RingingTest {
    private val phone = Context()
    private val telecom = TelecomManager()
    private val shown = NotificationManagerCompat.shown
    private val asked = LinkedBlockingQueue<String>()

    /** The service's answer to the ring check; null for 404. */
    @Volatile
    private var answer: String? = null
    private val service = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0).apply {
        createContext("/") { exchange ->
            asked += "${exchange.requestMethod} ${exchange.requestURI}"
            val text = answer
            exchange.sendResponseHeaders(if (text == null) 404 else 200, text?.length?.toLong() ?: -1)
            text?.let { exchange.responseBody.write(it.toByteArray()) }
            exchange.close()
        }
        start()
    }
    private val check get() = "http://127.0.0.1:${service.address.port}/v1/ring/c?user=bob&key=k"

    @Before
    fun begin() {
        shown.clear()
        Handler.delayed.clear()
        Ringing(phone).stop("c")
        ContextCompat.mayNotify = true
        phone.services[NotificationManager::class.java] = NotificationManager()
        phone.services[TelecomManager::class.java] = telecom
        configure()
    }

    private val declined = mutableListOf<String>()
    private val hungUp = mutableListOf<String>()

    private fun configure() = BellwireAndroid.configure(
        phone,
        BellwireAndroid.Settings(
            CallActivity::class.java, callIcon = 7, declined = { declined += it }, hungUp = { hungUp += it },
        ),
    )

    @After
    fun end() = service.stop(0)

    private fun take(kind: String, revision: Int, rest: String = "", callID: String = "c") = Ringing(phone).take(
        """{"kind":"$kind","callID":"$callID","revision":$revision,"inviter":"alice","name":"Alice","title":"Missed","body":"calls","expiresIn":30000$rest}""",
    )

    private val ringing: Notification? get() = shown["c" to Ringing.RINGING]
    private val missed: Notification? get() = shown["c" to Ringing.MISSED]

    @Test
    fun aRingIsShownUntilItsEnd() {
        take("ring", 1)
        assertEquals("Alice", ringing!!.title)
        assertEquals(30_000, ringing!!.timeoutAfter)
        assertTrue("the sound goes on", ringing!!.flags and Notification.FLAG_INSISTENT != 0)
        assertEquals("accept", ringing!!.accept!!.intent.action)
        take("stop", 2)
        assertNull(ringing)
        assertNull(missed)
    }

    @Test
    fun noPushUndoesALaterOne() {
        val isRinging = mapOf(
            listOf("ring 1", "stop 2") to false,
            listOf("stop 2", "ring 1") to false,
            // Cancelled and invited again: the stop of the first invitation is late.
            listOf("ring 1", "ring 5", "stop 2") to true,
            listOf("ring 5", "ring 1", "stop 2") to true,
            listOf("ring 5", "missed 2") to true,
            listOf("ring 1", "stop 2", "ring 5") to true,
            // Pushes come twice.
            listOf("ring 1", "ring 1") to true,
            listOf("ring 2", "stop 2", "ring 2") to false,
        )
        for ((pushes, expected) in isRinging) {
            val id = pushes.joinToString("-").replace(" ", "")
            for (push in pushes) take(push.substringBefore(" "), push.substringAfter(" ").toInt(), callID = id)
            assertEquals("$pushes", expected, (id to Ringing.RINGING) in shown)
        }
    }

    @Test
    fun aMissedCallIsShownOnceAndAnswersNothing() {
        take("ring", 1)
        take("missed", 2)
        assertNull(ringing)
        assertEquals("Missed", missed!!.title)
        shown.clear()
        take("missed", 2)
        assertNull(missed)
        take("later kind", 3)
        Ringing(phone).take("no JSON")
        Ringing(phone).take("[]")
        assertTrue(shown.isEmpty())
    }

    @Test
    fun theServiceIsAskedWhetherTheCallStillRings() {
        answer = """{"ringing":true,"expiresIn":12000}"""
        take("ring", 1, ""","check":"$check"""")
        assertEquals("GET /v1/ring/c?user=bob&key=k", asked.poll(5, TimeUnit.SECONDS))
        assertEquals(12_000, ringing!!.timeoutAfter)
        answer = """{"ringing":false}"""
        take("ring", 5, ""","check":"$check"""")
        assertNull(ringing)
        answer = """{"ringing":true,"expiresIn":0}"""
        take("ring", 6, ""","check":"$check"""")
        assertNull("a notification without a timeout would ring for ever", ringing)
        // A service that does not know the call, and a service that cannot be reached.
        answer = null
        take("ring", 7, ""","check":"$check"""")
        assertEquals(30_000, ringing!!.timeoutAfter)
        take("ring", 8, ""","check":"http://127.0.0.1:1/"""")
        assertEquals(30_000, ringing!!.timeoutAfter)
    }

    @Test
    fun aStopThatComesWhileTheServiceIsAskedCounts() {
        val isAsked = CountDownLatch(1)
        val mayAnswer = CountDownLatch(1)
        service.createContext("/slow") { exchange ->
            isAsked.countDown()
            mayAnswer.await(5, TimeUnit.SECONDS)
            exchange.sendResponseHeaders(200, 16)
            exchange.responseBody.write("""{"ringing":true}""".toByteArray())
            exchange.close()
        }
        val taking = thread { take("ring", 1, ""","check":"http://127.0.0.1:${service.address.port}/slow"""") }
        assertTrue(isAsked.await(5, TimeUnit.SECONDS))
        take("stop", 2)
        mayAnswer.countDown()
        taking.join(5_000)
        assertNull(ringing)
    }

    @Test
    fun aCallIsDeclinedFromItsNotification() {
        answer = """{"ringing":true}"""
        take("ring", 1, ""","check":"$check"""")
        assertNotNull(asked.poll(5, TimeUnit.SECONDS))
        // The app's client tells of the same call.
        Ringing(phone).ring("c", "Alice", "calls", 30_000)
        val receiver = DeclineReceiver()
        receiver.onReceive(phone, ringing!!.decline!!.intent)
        assertNull(ringing)
        assertEquals("POST /v1/ring/c/reject?user=bob&key=k", asked.poll(5, TimeUnit.SECONDS))
        assertEquals(listOf("c"), declined)
        // An intent without data.
        receiver.onReceive(phone, Intent())
        assertNull(asked.poll(100, TimeUnit.MILLISECONDS))
    }

    @Test
    fun withoutThePermissionNothingIsShown() {
        ContextCompat.mayNotify = false
        Log.lines.clear()
        take("ring", 1)
        assertTrue(shown.isEmpty())
        assertEquals(listOf(Log.WARN), Log.lines.map { it.first })
    }

    @Test
    fun theAppMayHaveARingtone() {
        val ringtone = Uri("ringtone")
        val manager = NotificationManager()
        phone.services[NotificationManager::class.java] = manager
        BellwireAndroid.configure(phone, BellwireAndroid.Settings(CallActivity::class.java, 7, ringtone = ringtone))
        assertEquals(listOf(ringtone, null), manager.channels.map { it.sound })
    }

    /** A broker and a service that answer a client's presence, and nothing else. */
    private class FakeService : Transport {
        private lateinit var handlers: ConnectionHandlers

        fun tell(message: String) = handlers.message(message)

        override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): org.bellwire.transport.Connection {
            this.handlers = handlers
            val connection = object : org.bellwire.transport.Connection {
                override val backlog = 0
                override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
                    val session = Regex(""""session":"([^"]+)"""").find(payload)?.groupValues?.get(1)
                    if ("/presence/" in topic && session != null) {
                        thread { tell("""{"type":"welcome","session":"$session","serverTime":0,"heartbeatInterval":20,"calls":[]}""") }
                    }
                    return true
                }
                override fun ask() = Unit
                override fun close() = Unit
            }
            thread {
                handlers.accepted()
                handlers.subscribed()
            }
            return connection
        }
    }

    private fun eventually(condition: () -> Boolean) {
        val end = System.nanoTime() + 20_000_000_000
        while (!condition()) {
            assertTrue("in time", System.nanoTime() < end)
            Thread.sleep(5)
        }
    }

    @Test
    fun aCallOfTheConnectionIsFollowed() = runBlocking {
        val service = FakeService()
        val client = BellwireClient(BellwireClient.Configuration("mqtt://a", "bob", device = "phone", transport = service))
        client.connect()
        fun tell(event: String, revision: Int, state: String, bob: String, rest: String = "", id: String = "c", mode: String = "advanced") = service.tell(
            """{"type":"event","event":"$event","revision":$revision,"time":1,"callID":"$id","changes":[],"call":{""" +
                """"callID":"$id","revision":$revision,"mode":"$mode","state":"$state","inviter":"alice","createdAt":1,"timeout":60,""" +
                """"members":[{"userID":"alice","state":"accepted","device":"x","updatedAt":1,"name":"Alice"},""" +
                """{"userID":"bob","state":"$bob","device":${if (bob == "accepted") "\"phone\"" else "null"},"updatedAt":1}]$rest}}""",
        )
        phone.packageManager.features += "android.software.telecom"
        configure()
        val followed = LinkedBlockingQueue<Job>()
        val following = launch(Dispatchers.Default) {
            client.incomingCalls.collect { call -> followed += launch { Ringing(phone).follow(call, "is calling you") } }
        }

        /** Telecom's connection of a call that rings, and the coroutine that follows the call. */
        fun ring(id: String, mode: String): Pair<Connection, Job> {
            val count = telecom.incoming.size
            tell("call.invited", 1, "ringing", "inviting", id = id, mode = mode)
            eventually { telecom.incoming.size > count }
            return telecomBegins() to followed.poll(20, TimeUnit.SECONDS)!!
        }

        val (advanced, first) = ring("c", "advanced")
        advanced.onShowIncomingCallUi()
        assertEquals("Alice", ringing!!.title)
        assertEquals(60_000, ringing!!.timeoutAfter)
        tell("call.userStateChanged", 2, "active", "accepted")
        eventually { advanced.state == Connection.STATE_ACTIVE && ringing == null }
        tell("call.ended", 3, "ended", "accepted", ""","endReason":"hangup"""")
        eventually { first.isCompleted && advanced.isDestroyed }

        val (cancelled, second) = ring("d", "advanced")
        tell("call.cancelled", 2, "ended", "cancelled", ""","endReason":"cancelled"""", "d")
        eventually { second.isCompleted && cancelled.isDestroyed }

        // Another invitee has answered, and Bob's invitation ends: there is no conversation here.
        val (missed, third) = ring("e", "common")
        tell("call.timeout", 2, "ended", "timeout", ""","endReason":"answered"""", "e", "common")
        eventually { third.isCompleted && missed.isDestroyed }

        // The conversation of a common call begins with the end of the call at the service.
        val (common, fourth) = ring("f", "common")
        tell("call.userStateChanged", 2, "ended", "accepted", ""","endReason":"answered"""", "f", "common")
        eventually { fourth.isCompleted }
        assertEquals(Connection.STATE_ACTIVE, common.state)

        // A coroutine that is cancelled, as at a logout, ends the ringing.
        val (left, fifth) = ring("g", "advanced")
        following.cancel()
        eventually { fifth.isCompleted && left.isDestroyed }
        client.disconnect()
    }

    private fun address() = telecom.incoming.last().values[TelecomManager.EXTRA_INCOMING_CALL_ADDRESS] as Uri

    private fun telecomBegins(): Connection =
        BellwireConnectionService().onCreateIncomingConnection(null, ConnectionRequest(address()))

    @Test
    fun telecomDecidesWhatSounds() {
        // The name of the feature before Android 13.
        phone.packageManager.features += "android.software.connectionservice"
        configure()
        assertEquals(1, telecom.accounts.size)
        take("ring", 1)
        assertNull("Telecom has not said that the call may ring", ringing)
        val connection = telecomBegins()
        assertEquals(Connection.STATE_RINGING, connection.state)
        connection.onShowIncomingCallUi()
        // A headset.
        val accept = ringing!!.accept!!
        connection.onAnswer()
        assertEquals(1, accept.sent)
        Ringing(phone).answered("c")
        assertNull(ringing)
        assertEquals(Connection.STATE_ACTIVE, connection.state)
        connection.onDisconnect()
        assertEquals(listOf("c"), hungUp)
        Ringing(phone).stop("c")
        assertEquals(DisconnectCause.REMOTE, connection.cause)
        assertTrue(connection.isDestroyed)
        // Telecom gets no call that is over.
        assertEquals(0, telecomBegins().state)
        // A call that Telecom does not take rings all the same, and so does a call that the app may not tell Telecom.
        take("ring", 5)
        BellwireConnectionService().onCreateIncomingConnectionFailed(null, ConnectionRequest(address()))
        assertNotNull(ringing)
        shown.clear()
        telecom.isForbidden = true
        take("ring", 6)
        assertNotNull(ringing)
    }

    /** Tells Telecom of a call that this user makes. Returns Telecom's connection of the call. */
    private fun telecomPlaces(): Connection {
        Ringing(phone).calling("c", "Bob")
        val (address, extras) = telecom.outgoing.last()
        assertTrue(extras.values[TelecomManager.EXTRA_PHONE_ACCOUNT_HANDLE] is PhoneAccountHandle)
        return BellwireConnectionService().onCreateOutgoingConnection(null, ConnectionRequest(address))
    }

    @Test
    fun telecomIsToldOfAnOutgoingCall() {
        phone.packageManager.features += "android.software.telecom"
        configure()
        val connection = telecomPlaces()
        assertEquals(Connection.STATE_DIALING, connection.state)
        // No push of the call touches a call that this user makes.
        take("stop", 1)
        assertEquals(Connection.STATE_DIALING, connection.state)
        // The user gives up in the car.
        connection.onDisconnect()
        assertEquals(listOf("c"), hungUp)
        assertEquals(emptyList<String>(), declined)
        Ringing(phone).answered("c")
        assertEquals(Connection.STATE_ACTIVE, connection.state)
        // The app tells of a call once.
        Ringing(phone).calling("c", "Bob")
        assertEquals(1, telecom.outgoing.size)
        Ringing(phone).stop("c")
        assertEquals(DisconnectCause.REMOTE, connection.cause)
        assertTrue(shown.isEmpty())
    }

    @Test
    fun anOutgoingCallThatThePhoneDoesNotAllowIsHungUp() {
        phone.packageManager.features += "android.software.telecom"
        configure()
        telecomPlaces()
        val request = ConnectionRequest(telecom.outgoing.last().first)
        BellwireConnectionService().onCreateOutgoingConnectionFailed(null, request)
        assertEquals(listOf("c"), hungUp)
        // A call that is over before Telecom comes to it.
        Ringing(phone).calling("c", "Bob")
        Ringing(phone).stop("c")
        assertEquals(0, BellwireConnectionService().onCreateOutgoingConnection(null, request).state)
        // Without the permission, and without Telecom, the call goes on.
        telecom.isForbidden = true
        Ringing(phone).calling("c", "Bob")
        phone.packageManager.features.clear()
        Ringing(phone).calling("c", "Bob")
        assertEquals(listOf("c"), hungUp)
        assertEquals(2, telecom.outgoing.size)
    }

    @Test
    fun telecomHasEachCallOnceAndNoneForever() {
        phone.packageManager.features += "android.software.telecom"
        configure()
        take("ring", 1)
        // The app's client tells of the same call, before and after Telecom takes the call.
        Ringing(phone).ring("c", "Alice", "calls", 20_000)
        assertNull(ringing)
        val first = telecomBegins()
        take("ring", 5)
        assertNotNull(ringing)
        assertEquals(1, telecom.incoming.size)
        // No user answers, and no push tells of the end. The timers of earlier rings do not end this call.
        val (milliseconds, task) = Handler.delayed.last()
        assertEquals(30_000, milliseconds)
        for ((_, earlier) in Handler.delayed.dropLast(1)) earlier()
        assertEquals(Connection.STATE_RINGING, first.state)
        task()
        assertEquals(DisconnectCause.MISSED, first.cause)
        take("ring", 7)
        val second = telecomBegins()
        second.onShowIncomingCallUi()
        DeclineReceiver().onReceive(phone, ringing!!.decline!!.intent)
        assertEquals(DisconnectCause.REJECTED, second.cause)
        Handler.delayed.last().second()
        assertEquals(DisconnectCause.REJECTED, second.cause)
    }

    @Test
    fun anAnsweredCallIsNotTouchedByWhatIsLate() {
        phone.packageManager.features += "android.software.telecom"
        configure()
        take("ring", 1)
        // The user accepts in the app before Telecom comes to the call.
        Ringing(phone).answered("c")
        val connection = telecomBegins()
        assertEquals(Connection.STATE_ACTIVE, connection.state)
        connection.onShowIncomingCallUi()
        assertNull(ringing)
        Handler.delayed.last().second()
        answer = """{"ringing":false}"""
        take("ring", 5, ""","check":"$check"""")
        take("stop", 6)
        assertEquals(Connection.STATE_ACTIVE, connection.state)
        Ringing(phone).stop("c")
        assertTrue(connection.isDestroyed)
    }

    @Test
    fun firebaseHandsItsMessagesOver() {
        val tokens = mutableListOf<String>()
        val service = object : BellwireMessagingService() {
            override fun tokenChanged(token: String) {
                tokens += token
            }
        }
        service.onNewToken("t")
        assertEquals(listOf("t"), tokens)
        service.onMessageReceived(RemoteMessage(mapOf("other" to "x")))
        service.onMessageReceived(RemoteMessage(mapOf("bellwire" to """{"kind":"ring","callID":"c","revision":1,"inviter":"alice"}""")))
        assertEquals("alice", ringing!!.title)
        assertEquals(60_000, ringing!!.timeoutAfter)
    }

    @Test
    fun aClientHasThePhonesClockAndLog() {
        val configuration = BellwireClient.Configuration(
            "mqtt://a", "alice", clock = BellwireAndroid.clock, log = BellwireAndroid.log,
        )
        SystemClock.elapsed = 7
        assertEquals(7, configuration.clock())
        Log.lines.clear()
        configuration.log!!.write(LogLevel.INFO, "connected", null)
        configuration.log!!.write(LogLevel.WARNING, "a fault", IllegalStateException())
        assertEquals(Triple(Log.INFO, "bellwire", "connected"), Log.lines[0])
        assertEquals(Triple(Log.WARN, "bellwire", "a fault\njava.lang.IllegalStateException"), Log.lines[1])
    }

    @Test
    fun theCallsThatAreRememberedAreBounded() {
        for (number in 1..450) take("ring", 1, callID = "c$number")
        assertTrue(phone.getSharedPreferences("bellwire-pushes", Context.MODE_PRIVATE).all.size <= 200)
        assertFalseRing("c450")
    }

    /** A push that comes again does not ring again. */
    private fun assertFalseRing(callID: String) {
        shown.clear()
        take("ring", 1, callID = callID)
        assertTrue(shown.isEmpty())
    }
}
