package org.bellwire

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.launch
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonPrimitive
import org.bellwire.transport.ConnectionFailure
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertSame
import org.junit.Assert.assertTrue
import org.junit.Test
import java.util.concurrent.atomic.AtomicInteger

/** The client and its driver in virtual time, against a broker that the test controls. */
@OptIn(ExperimentalCoroutinesApi::class)
class ClientTest {
    private var loop = VirtualLoop()
    private val broker = FakeBroker()
    private val scope = CoroutineScope(Dispatchers.Unconfined + SupervisorJob())

    @After
    fun end() = scope.cancel()

    private fun client(url: String = "mqtt://a", token: (suspend () -> String)? = null) = BellwireClient(
        BellwireClient.Configuration(url = url, user = "alice", device = "phone", token = token, transport = broker),
    ) { VirtualLoop().also { loop = it } }

    /** Starts a call of the app; the app's coroutine runs in the test's thread. */
    private fun <T> start(block: suspend () -> T): Deferred<T> =
        scope.async(start = CoroutineStart.UNDISPATCHED) { block() }.also { loop.run() }

    private fun connected(client: BellwireClient = client()): BellwireClient {
        val connecting = start { client.connect() }
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertTrue(connecting.isCompleted)
        return client
    }

    private fun code(deferred: Deferred<*>): String? = (deferred.getCompletionExceptionOrNull() as? BellwireException)?.code

    private fun receive(json: String) {
        broker.last.handlers.message(json)
        loop.run()
    }

    /** Answers the last request of this type. */
    private fun answer(type: String, rest: String) = receive("""{"type":"response","id":"${broker.last.last(type).text("id")}",$rest}""")

    private fun call(revision: Int, bob: String, state: String = "ringing", rest: String = "", id: String = "c") =
        """{"callID":"$id","revision":$revision,"mode":"advanced","state":"$state","inviter":"alice","createdAt":1,"timeout":60,"members":[""" +
            """{"userID":"alice","state":"accepted","device":"phone","updatedAt":1},""" +
            """{"userID":"bob","state":"$bob","updatedAt":1,"expiresAt":60000}]$rest}"""

    private fun event(name: String, revision: Int, call: String) =
        receive("""{"type":"event","event":"$name","revision":$revision,"time":$revision,"callID":"c","changes":[],"call":$call}""")

    /**
     * Lets time pass in which no request is answered. Welcomes arrive meanwhile, so that the client stays at this broker.
     */
    private fun passWithoutResponse(milliseconds: Long) {
        for (begin in 0 until milliseconds step 7_000) {
            loop.pass(minOf(7_000, milliseconds - begin))
            broker.last.welcome()
        }
    }

    @Test
    fun aClientLeavesABrokerThatDeliversNothing() {
        val client = connected()
        val asking = start { client.history() }
        loop.pass(8_000)
        assertEquals(2, broker.links.size)
        assertTrue(broker.links[0].isClosed)
        assertEquals(ConnectionState.CONNECTED, client.state.value)
        broker.last.accept()
        loop.run()
        assertTrue(broker.last.published.last().second.contains("call.query"))
        assertFalse(asking.isCompleted)
    }

    /** The broker does not deliver a request whose failure the app was told of. */
    @Test
    fun aBrokerKeepsARequestUntilItsTimeLimit() {
        val client = connected()
        val before = broker.last.published.size
        val asking = start { client.history() }
        passWithoutResponse(29_500)
        assertEquals(listOf(30, 29, 27, 23, 15, 7), broker.last.expiries.drop(before))
        loop.pass(500)
        assertEquals("noResponse", code(asking))
    }

    @Test
    fun connectReturnsWhenTheServiceKnowsTheDevice() {
        val client = client()
        val connecting = start { client.connect() }
        assertEquals(ConnectionState.CONNECTING, client.state.value)
        broker.last.accept()
        loop.run()
        assertFalse(connecting.isCompleted)
        broker.last.welcome(""","iceServers":[{"urls":["turn:t"],"username":"u","credential":"c"}]""")
        loop.run()
        assertTrue(connecting.isCompleted)
        assertEquals(ConnectionState.CONNECTED, client.state.value)
        assertEquals(listOf(IceServer(listOf("turn:t"), "u", "c")), client.iceServers)
        assertEquals("alice/phone", broker.last.settings.clientID)
        assertEquals("bellwire/v1/presence/alice/phone", broker.last.settings.willTopic)
    }

    @Test
    fun reconnectsGoToTheNextBrokerMoreAndMoreSlowly() {
        val client = client("mqtt://a,mqtt://b")
        start { client.connect() }
        val pauses = (1..8).map {
            val count = broker.links.size
            broker.last.handlers.closed(lost())
            loop.run()
            var pause = 0L
            while (broker.links.size == count) {
                loop.pass(1)
                pause += 1
            }
            pause
        }
        val longest = listOf(250L, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000)
        for ((pause, most) in pauses.zip(longest)) assertTrue("$pauses", pause in most / 2..most + 1)
        assertEquals(setOf("mqtt://a", "mqtt://b"), broker.links.take(2).map { it.settings.url }.toSet())
        assertEquals(broker.links[0].settings.url, broker.links[2].settings.url)
    }

    @Test
    fun anEventOfAFormerConnectionIsIgnored() {
        val client = connected()
        val former = broker.last
        former.handlers.closed(lost())
        loop.run()
        assertEquals(ConnectionState.RECONNECTING, client.state.value)
        loop.pass(300)
        former.handlers.closed(lost())
        former.handlers.accepted()
        loop.run()
        assertEquals(2, broker.links.size)
    }

    @Test
    fun aCallIsMadeAndItsChangesAreTold() {
        val client = connected()
        val calling = start { client.call(listOf("bob"), CallOptions(media = "video", callID = "c")) }
        val request = broker.last.last("call.invite")
        assertEquals("advanced", request.text("mode"))
        assertEquals("video", request.text("media"))
        // The event may come before the response.
        event("call.userStateChanged", 2, call(2, "received"))
        answer("call.invite", """"ok":true,"time":1,"call":${call(1, "inviting")},"offline":["bob"]""")
        val call = calling.getCompleted()
        assertEquals(listOf("bob"), call.invited.offline)
        assertTrue(call.isRingingElsewhere)
        event("call.userStateChanged", 3, call(3, "accepted", "active"))
        event("call.ended", 4, call(4, "quit", "ended", ""","endReason":"hangup""""))
        val told = mutableListOf<CallChange>()
        val collecting = start { call.changes.collect { told += it } }
        assertEquals(listOf(MemberState.RECEIVED, MemberState.ACCEPTED, MemberState.QUIT), told.map { it.state })
        assertTrue("changes complete with the call", collecting.isCompleted)
        assertEquals("hangup", call.endReason)
        assertEquals(emptyList<Call>(), client.calls)
    }

    @Test
    fun theEndOfACallIsAFlowAsWell() {
        val client = connected()
        val calling = start { client.call(listOf("bob"), CallOptions(callID = "c")) }
        answer("call.invite", """"ok":true,"time":1,"call":${call(1, "inviting")}""")
        val told = mutableListOf<String?>()
        start { calling.getCompleted().endReasons.collect { told += it } }
        event("call.ended", 2, call(2, "rejected", "ended", ""","endReason":"busy""""))
        assertEquals(listOf(null, EndReasons.BUSY), told)
    }

    /** The service may have served the invitation: no phone is to ring for a call that failed for its app. */
    @Test
    fun anInvitationWithoutAResponseIsTakenBack() {
        val client = connected()
        val calling = start { client.call(listOf("bob"), CallOptions(callID = "c")) }
        passWithoutResponse(30_000)
        assertEquals(ErrorCodes.NO_RESPONSE, code(calling))
        // In the client's own coroutine, in another thread.
        fun sends(type: String) = eventually {
            loop.run()
            broker.last.published.any { type in it.second }
        }
        sends("call.cancel")
        assertEquals("c", broker.last.last("call.cancel").text("callID"))
        val resumed = mutableListOf<Call>()
        start { client.resumedCalls.collect { resumed += it } }
        event("call.userStateChanged", 2, call(2, "accepted", "active"))
        // Another invitee's invitation is cancelled, and bob is in the call.
        answer("call.cancel", """"ok":true,"time":3,"call":${call(3, "accepted", "active")}""")
        sends("call.end")
        assertEquals("c", broker.last.last("call.end").text("callID"))
        answer("call.end", """"ok":true,"time":4,"call":${call(4, "accepted", "ended", ""","endReason":"hangup"""")}""")
        assertEquals(emptyList<Call>(), resumed)
    }

    @Test
    fun aCancelledCallWhoseInvitationGetsNoResponseIsTakenBack() {
        val client = connected()
        val calling = scope.launch(start = CoroutineStart.UNDISPATCHED) { client.call(listOf("bob"), CallOptions(callID = "c")) }
        loop.run()
        calling.cancel()
        loop.run()
        answer("call.cancel", """"ok":false,"error":{"code":"invalidState","message":"","state":"active"}""")
        passWithoutResponse(30_000)
        eventually {
            loop.run()
            broker.last.published.count { "call.cancel" in it.second } > 1
        }
    }

    @Test
    fun theProblemOfTheConnectionEndsWithTheNextConnection() {
        val client = connected()
        broker.last.handlers.closed(lost("the cable is cut"))
        loop.run()
        assertEquals("the cable is cut", client.problem)
        loop.pass(1_000)
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertNull(client.problem)
    }

    @Test
    fun anInvitationIsToldOnceAndWithdrawnWhenItIsOver() {
        val client = connected()
        fun incoming(revision: Int, id: String, state: String = "ringing", own: String = "inviting") =
            """{"callID":"$id","revision":$revision,"mode":"advanced","state":"$state","inviter":"bob","createdAt":1,"timeout":60,"members":[""" +
                """{"userID":"bob","state":"accepted","device":"x","updatedAt":1},{"userID":"alice","state":"$own","updatedAt":1}]}"""
        fun tell(name: String, revision: Int, id: String, call: String) = receive(
            """{"type":"event","event":"$name","revision":$revision,"time":$revision,"callID":"$id","changes":[],"call":$call,"missed":true}""",
        )
        tell("call.invited", 1, "over", incoming(1, "over"))
        tell("call.cancelled", 2, "over", incoming(2, "over", "ended", "cancelled"))
        tell("call.invited", 1, "c1", incoming(1, "c1"))
        tell("call.invited", 1, "c1", incoming(1, "c1"))
        val first = mutableListOf<Call>()
        val second = mutableListOf<Call>()
        start { client.incomingCalls.collect { first += it } }
        start { client.incomingCalls.collect { second += it } }
        assertEquals("what is over is not told late", listOf("c1"), first.map { it.id })
        tell("call.invited", 1, "c2", incoming(1, "c2"))
        assertEquals(listOf("c1", "c2"), first.map { it.id })
        assertEquals(listOf("c2"), second.map { it.id })
        tell("call.timeout", 2, "c2", incoming(2, "c2", "ended", "timeout"))
        assertTrue(second.last().isMissed)
    }

    @Test
    fun aCallThatIsCancelledByItsCoroutineIsCancelledAtTheService() {
        val client = connected()
        val calling = scope.launch(start = CoroutineStart.UNDISPATCHED) { client.call(listOf("bob"), CallOptions(callID = "c")) }
        loop.run()
        calling.cancel()
        loop.run()
        assertEquals("c", broker.last.last("call.cancel").text("callID"))
    }

    @Test
    fun aRequestThatIsNotAnsweredFailsInTimeAndWhenTheClientDisconnects() {
        val client = connected()
        val late = start { client.users(listOf("bob")) }
        passWithoutResponse(30_000)
        assertEquals("noResponse", code(late))
        val open = start { client.users(listOf("bob")) }
        val ending = start { client.disconnect() }
        assertTrue(ending.isCompleted)
        assertEquals("disconnected", code(open))
        assertTrue(broker.last.isClosed)
        assertTrue(broker.last.published.last().second.contains("logout"))
        assertTrue(loop.hasEnded)
        assertEquals(ConnectionState.DISCONNECTED, client.state.value)
        assertEquals("notConnected", code(start { client.users(listOf("bob")) }))
    }

    @Test
    fun aClientConnectsAgainAfterItsEnd() {
        val client = connected()
        start { client.disconnect() }
        connected(client)
        assertEquals(2, broker.links.size)
    }

    @Test
    fun aRequestThatTheBrokerDoesNotTakeFailsAtOnce() {
        val client = connected()
        broker.last.largest = 100
        assertEquals("tooLarge", code(start { client.update(extendedData = "x".repeat(200)) }))
        assertEquals("tooLarge", code(start { client.send("bob", JsonPrimitive("x".repeat(40_000))) }))
    }

    @Test
    fun whatIsNoUserOrDeviceOrAddressIsRefusedAtOnce() {
        fun refused(url: String = "mqtt://a", user: String = "u", device: String? = null): String? = try {
            BellwireClient(BellwireClient.Configuration(url, user, device))
            null
        } catch (exception: BellwireException) {
            exception.code
        }
        assertNull(refused("mqtts://[::1]:1, wss://h/mqtt?x=1,mqtt://my_broker:1883"))
        assertNull(refused(user = "Ж".repeat(32)))
        for (url in listOf("", "a", "http://a", "mqtt://", "mqtt://a/path", "mqtt://u:p@a", "mqtt://a,", "mqtt://a:99999", "mqtt://a:0", "mqtt://a:x")) assertEquals(url, "badRequest", refused(url))
        for (user in listOf("", "x".repeat(65), "Ж".repeat(33), "\u0085", "\ud800", "\ufffe")) assertEquals("badRequest", refused(user = user))
        for (device in listOf("", "a/b", "x".repeat(65), "é")) assertEquals("badRequest", refused(device = device))
    }

    @Test
    fun withoutATokenProviderARefusalEndsTheClient() {
        val client = client()
        val connecting = start { client.connect() }
        broker.last.handlers.closed(ConnectionFailure("no", isRefused = true))
        loop.run()
        assertEquals("refused", code(connecting))
        assertEquals(ConnectionState.REFUSED, client.state.value)
        connected(client)
    }

    @Test
    fun aRefusedTokenIsReplacedAndATokenIsRenewedUnseen() {
        var count = 0
        val client = client(token = { "token-${++count}" })
        val connecting = start { client.connect() }
        waitForLinks(1)
        assertEquals("token-1", broker.last.settings.password)
        broker.last.handlers.closed(ConnectionFailure("no", isRefused = true))
        loop.run()
        assertEquals(ConnectionState.REFUSED, client.state.value)
        loop.pass(300)
        waitForLinks(2)
        assertEquals("token-2", broker.last.settings.password)
        broker.last.accept()
        loop.run()
        broker.last.welcome(""","tokenExpiresAt":300000""")
        loop.run()
        assertTrue(connecting.isCompleted)
        val states = mutableListOf<ConnectionState>()
        start { client.state.collect { states += it } }
        loop.pass(240_000)
        waitForLinks(3)
        assertEquals("token-3", broker.last.settings.password)
        assertTrue("the former connection is closed", broker.links[1].isClosed)
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertEquals("the app is not told", listOf(ConnectionState.CONNECTED), states)
    }

    @Test
    fun aTokenProviderThatDoesNotAnswerIsAskedAgain() {
        val asked = AtomicInteger()
        val never = CompletableDeferred<String>()
        val client = client(token = { if (asked.incrementAndGet() == 1) never.await() else "token" })
        start { client.connect() }
        eventually { asked.get() == 1 }
        loop.pass(30_000)
        assertEquals(ConnectionState.CONNECTING, client.state.value)
        assertTrue(client.problem!!.startsWith("no token"))
        loop.pass(300)
        waitForLinks(1)
        assertEquals("token", broker.last.settings.password)
    }

    @Test
    fun aTokenIsAskedForBeforeEachConnection() {
        val asked = AtomicInteger()
        val client = client(token = { "token-${asked.incrementAndGet()}" })
        val states = mutableListOf<ConnectionState>()
        start { client.state.collect { states += it } }
        start { client.connect() }
        waitForLinks(1)
        welcome()
        broker.last.handlers.closed(lost())
        loop.run()
        // The phone sleeps for longer than its token lasts.
        loop.pass(300)
        waitForLinks(2)
        assertEquals("token-2", broker.last.settings.password)
        welcome()
        // The service knows no session of the device: another connection, and before it a question.
        receive("""{"type":"error","error":{"code":"sessionOver","message":"","session":"${broker.last.session}"}}""")
        waitForLinks(3)
        assertEquals("token-3", broker.last.settings.password)
        assertFalse("no dead token is used", ConnectionState.REFUSED in states)
    }

    @Test
    fun aProviderThatFailsLeavesTheLastTokenUntilTheBrokerRefusesIt() {
        val asked = AtomicInteger()
        val client = client(token = { if (asked.incrementAndGet() == 1) "first" else error("no network") })
        val errors = mutableListOf<String>()
        start { client.errors.collect { errors += it.code } }
        start { client.connect() }
        waitForLinks(1)
        welcome()
        broker.last.handlers.closed(lost())
        loop.run()
        loop.pass(300)
        waitForLinks(2)
        assertEquals("first", broker.last.settings.password)
        assertEquals(listOf("noToken"), errors)
        broker.last.handlers.closed(ConnectionFailure("no", isRefused = true))
        loop.run()
        loop.pass(8_000)
        eventually { errors.count { it == "noToken" } >= 2 }
        assertEquals("a refused token is not used again", 2, broker.links.size)
    }

    @Test
    fun aProviderIsAskedForOneTokenAtATime() {
        val asked = AtomicInteger()
        val second = CompletableDeferred<String>()
        val client = client(token = { if (asked.incrementAndGet() == 1) "first" else second.await() })
        start { client.connect() }
        waitForLinks(1)
        welcome(""","tokenExpiresAt":300000""")
        loop.pass(240_000)
        eventually { asked.get() == 2 }
        // The connection is lost while the client asks for the next token. The next attempt waits for the same token.
        broker.last.handlers.closed(lost())
        loop.run()
        loop.pass(10_000)
        assertEquals(1, broker.links.size)
        second.complete("second")
        waitForLinks(2)
        assertEquals("second", broker.last.settings.password)
        assertEquals(2, asked.get())
    }

    @Test
    fun aTokenThatCameLateIsUsedWhileItIsFresh() {
        for ((pause, expected) in listOf(10_000L to "late", 90_000L to "token-3")) {
            broker.links.clear()
            val asked = AtomicInteger()
            val late = CompletableDeferred<String>()
            val client = client(token = { asked.incrementAndGet().let { if (it == 2) late.await() else "token-$it" } })
            start { client.connect() }
            waitForLinks(1)
            welcome()
            broker.last.handlers.closed(lost())
            loop.run()
            // The provider does not answer in time, and the client connects with the last token.
            loop.pass(31_000)
            waitForLinks(2)
            assertEquals("token-1", broker.last.settings.password)
            welcome()
            late.complete("late")
            eventually { loop.runOne() }
            loop.pass(pause)
            broker.last.handlers.closed(lost())
            loop.run()
            loop.pass(8_000)
            waitForLinks(3)
            assertEquals(expected, broker.last.settings.password)
        }
    }

    private fun welcome(rest: String = "") {
        broker.last.accept()
        loop.run()
        broker.last.welcome(rest)
        loop.run()
    }

    /** The token provider runs in another thread. */
    private fun waitForLinks(count: Int) = eventually { broker.links.size >= count }

    @Test
    fun aSecondClientOfTheDeviceEndsTheFirst() {
        val client = connected()
        broker.last.handlers.closed(ConnectionFailure("taken", isTakenOver = true))
        loop.run()
        assertEquals(ConnectionState.TAKEN_OVER, client.state.value)
        loop.pass(60_000)
        assertEquals(1, broker.links.size)
        // A broker that does not say why.
        val other = connected(client())
        repeat(3) {
            broker.last.handlers.closed(ConnectionFailure("dropped", isDropped = true))
            loop.run()
            loop.pass(1_100)
            if (it < 2) {
                broker.last.accept()
                loop.run()
            }
        }
        assertEquals(ConnectionState.TAKEN_OVER, other.state.value)
    }

    @Test
    fun aTokenThatEndedIsNamed() {
        val client = connected()
        receive("""{"type":"error","error":{"code":"tokenExpired","message":"over"}}""")
        broker.last.handlers.closed(lost())
        loop.run()
        assertEquals(ConnectionState.TOKEN_EXPIRED, client.state.value)
    }

    @Test
    fun aNewNetworkIsUsedAtOnceAndAnOldOneIsAsked() {
        val client = connected()
        client.networkChanged()
        loop.run()
        assertEquals(1, broker.last.asked)
        repeat(6) {
            broker.last.handlers.closed(lost())
            loop.run()
            loop.pass(8_000)
        }
        broker.last.handlers.closed(lost())
        loop.run()
        val count = broker.links.size
        client.networkChanged()
        loop.run()
        assertEquals(count + 1, broker.links.size)
        assertEquals(ConnectionState.RECONNECTING, client.state.value)
    }

    @Test
    fun anAddressThatTheTransportRefusesIsTriedAgain() {
        broker.failure = IllegalArgumentException("no such scheme")
        val client = client()
        start { client.connect() }
        loop.pass(1)
        broker.failure = null
        loop.pass(300)
        assertEquals(1, broker.links.size)
        assertEquals(ConnectionState.CONNECTING, client.state.value)
    }

    @Test
    fun twoUsersWhoCallEachOtherAreInOneCall() {
        val client = connected()
        val incoming = mutableListOf<Call>()
        start { client.incomingCalls.collect { incoming += it } }
        val theirs = { revision: Int, own: String, state: String ->
            """{"callID":"theirs","revision":$revision,"mode":"advanced","state":"$state","inviter":"bob","createdAt":1,"timeout":60,"members":[""" +
                """{"userID":"bob","state":"accepted","device":"x","updatedAt":1},{"userID":"alice","state":"$own","device":"phone","updatedAt":1}]}"""
        }
        val calling = start { client.call(listOf("bob"), CallOptions(glare = Glare.MERGE, callID = "c")) }
        receive("""{"type":"event","event":"call.invited","revision":1,"time":1,"callID":"theirs","changes":[],"call":${theirs(1, "inviting", "ringing").replace(",\"device\":\"phone\"", "")}}""")
        answer("call.invite", """"ok":true,"time":2,"call":${theirs(2, "accepted", "active")}""")
        assertSame(incoming.single(), calling.getCompleted())
        assertTrue(calling.getCompleted().isHere)
        assertEquals(listOf("theirs"), client.calls.map { it.id })
    }

    @Test
    fun aMediaSessionComesWithTheAnswer() {
        val client = connected()
        val session = """"mediaSession":{"server":"l","type":"livekit","url":"wss://l","room":"r","token":"secret","expiresAt":9}"""
        val calling = start { client.call(listOf("bob"), CallOptions(callID = "c")) }
        answer("call.invite", """"ok":true,"time":1,"call":${call(1, "inviting")},$session""")
        val call = calling.getCompleted()
        assertEquals("r", call.mediaSession?.room)
        assertFalse("no token in a log", call.mediaSession.toString().contains("secret"))
        val renewing = start { call.renewMediaSession() }
        answer("call.media", """"ok":true,${session.replace("\"r\"", "\"s\"")}""")
        assertEquals("s", renewing.getCompleted().room)
    }

    @Test
    fun hangUpEndsWhateverTheCallIs() {
        val client = connected()
        val calling = start { client.call(listOf("bob"), CallOptions(callID = "c")) }
        answer("call.invite", """"ok":true,"time":1,"call":${call(1, "inviting")}""")
        val call = calling.getCompleted()
        // The invitee answers in the moment of the cancel.
        val hangingUp = start { call.hangUp() }
        event("call.userStateChanged", 2, call(2, "accepted", "active"))
        answer("call.cancel", """"ok":false,"error":{"code":"invalidState","message":"","state":"accepted"}""")
        answer("call.end", """"ok":true,"time":3,"call":${call(3, "accepted", "ended", ""","endReason":"hangup"""")}""")
        assertTrue(hangingUp.isCompleted)
        assertNull(hangingUp.getCompletionExceptionOrNull())
        assertEquals("hangup", call.endReason)
        assertTrue(start { call.hangUp() }.isCompleted)
    }

    @Test
    fun aWelcomeBringsTheMediaSessionOfACallThatGoesOn() {
        val client = client()
        start { client.connect() }
        broker.last.accept()
        loop.run()
        // The form of docs/protocol.md, section 8.
        val session = """{"callID":"c","server":"l","type":"livekit","url":"wss://l","room":"r","token":"t","expiresAt":9}"""
        val talking = call(3, "accepted", "active")
        broker.last.handlers.message(
            """{"type":"welcome","session":"${broker.last.session}","serverTime":0,"heartbeatInterval":20,"calls":[$talking],"mediaSessions":[$session]}""",
        )
        loop.run()
        val resumed = mutableListOf<Call>()
        start { client.resumedCalls.collect { resumed += it } }
        assertEquals("r", resumed.single().mediaSession?.room)
    }

    @Test
    fun connectWaitsForTheServiceAlsoAfterALostConnection() {
        val client = connected()
        broker.last.handlers.closed(lost("gone"))
        loop.run()
        assertEquals("gone", client.problem)
        val connecting = start { client.connect() }
        assertFalse(connecting.isCompleted)
        loop.pass(300)
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertTrue(connecting.isCompleted)
    }

    @Test
    fun aCallOfAPushIsFound() {
        val client = connected()
        val finding = start { client.find("c") }
        val theirs = call(1, "accepted").replace("\"alice\"", "\"x\"").replace("\"bob\"", "\"alice\"").replace("\"x\"", "\"bob\"")
            .replace("\"userID\":\"alice\",\"state\":\"accepted\"", "\"userID\":\"alice\",\"state\":\"inviting\"")
        answer("call.get", """"ok":true,"time":1,"call":$theirs""")
        assertEquals("c", finding.getCompleted()?.id)
        assertEquals(1, broker.last.asked)
        val gone = start { client.find("other") }
        answer("call.get", """"ok":false,"error":{"code":"callNotFound","message":""}""")
        assertTrue(gone.isCompleted)
        assertNull(gone.getCompleted())
    }

    @Test
    fun aCallThatWasAnsweredBeforeItsCancelIsEnded() {
        val client = connected()
        val calling = scope.launch(start = CoroutineStart.UNDISPATCHED) { client.call(listOf("bob"), CallOptions(callID = "c")) }
        loop.run()
        val invited = broker.last.last("call.invite").text("id")
        calling.cancel()
        loop.run()
        receive("""{"type":"response","id":"$invited","ok":true,"time":1,"call":${call(1, "inviting")}}""")
        event("call.userStateChanged", 2, call(2, "accepted", "active"))
        // The client's own coroutine, in another thread, cancels as well, and then hangs up.
        eventually {
            answer("call.cancel", """"ok":false,"error":{"code":"invalidState","message":""}""")
            broker.last.published.any { "call.end" in it.second }
        }
        answer("call.end", """"ok":true,"time":3,"call":${call(3, "accepted", "ended", ""","endReason":"hangup"""")}""")
        assertEquals(emptyList<Call>(), client.calls)
        // A coroutine that is cancelled already makes no call.
        val count = broker.last.published.size
        val job = Job().apply { cancel() }
        scope.launch(job, start = CoroutineStart.UNDISPATCHED) { client.call(listOf("bob")) }
        loop.run()
        assertEquals(count, broker.last.published.size)
    }

    private fun eventually(condition: () -> Boolean) {
        val end = System.nanoTime() + 10_000_000_000
        while (!condition()) {
            assertTrue("not within 10 s", System.nanoTime() < end)
            loop.run()
            Thread.sleep(1)
        }
    }

    @Test
    fun aTransportThatThrowsStopsNothing() {
        val client = connected()
        broker.last.publishFails = true
        val late = start { client.users(listOf("bob")) }
        loop.pass(30_000)
        assertEquals("noResponse", code(late))
        assertTrue(start { client.disconnect() }.isCompleted)
        connected(client)
        val again = start { client.users(listOf("bob")) }
        answer("user.query", """"ok":true,"users":[]""")
        assertTrue(again.isCompleted)
    }

    @Test
    fun aProviderThatFailsIsTold() {
        val asked = AtomicInteger()
        val client = client(token = { if (asked.incrementAndGet() == 1) error("no network") else "token" })
        val errors = mutableListOf<String>()
        start { client.errors.collect { errors += it.code } }
        start { client.connect() }
        eventually { errors.isNotEmpty() }
        assertEquals(listOf("noToken"), errors)
        loop.pass(300)
        waitForLinks(1)
        assertEquals("token", broker.last.settings.password)
    }

    @Test
    fun aTransportThatFailsEndsNothingForGood() {
        broker.failure = IllegalStateException("broken")
        val client = client()
        start { client.connect() }
        assertEquals("broken", client.problem)
        broker.failure = null
        loop.pass(300)
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertEquals(ConnectionState.CONNECTED, client.state.value)
        broker.last.closeFails = true
        assertTrue(start { client.disconnect() }.isCompleted)
        assertEquals(ConnectionState.DISCONNECTED, client.state.value)
        connected(client)
    }

    @Test
    fun jsonThatTheServiceDoesNotReadIsRefusedAtOnce() {
        val client = connected()
        var deep: JsonElement = JsonPrimitive(1)
        repeat(20_000) { deep = JsonArray(listOf(deep)) }
        assertEquals("badRequest", code(start { client.send("bob", deep) }))
        assertEquals("badRequest", code(start { client.request("user.update", jsonOf("x" to deep)) }))
    }

    @Test
    fun whatAnUnconfinedCoroutineDoesAtTheEndIsDone() {
        val client = connected()
        val open = start { client.users(listOf("bob")) }
        var again: Deferred<Unit>? = null
        scope.launch(start = CoroutineStart.UNDISPATCHED) {
            runCatching { open.await() }
            again = scope.async(start = CoroutineStart.UNDISPATCHED) { client.connect() }
        }
        start { client.disconnect() }
        loop.run()
        assertEquals(ConnectionState.CONNECTING, client.state.value)
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        assertTrue(again!!.isCompleted)
        assertEquals(ConnectionState.CONNECTED, client.state.value)
    }
}
