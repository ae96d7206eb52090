package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.cancel
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong

/** A phone that sleeps: the app's clock goes on, and the timers of the JVM stand still. */
class SleepTest {
    private val broker = FakeBroker()
    private val slept = AtomicLong()
    private val asked = AtomicInteger()
    private val scope = CoroutineScope(Dispatchers.Default + SupervisorJob())
    private val client = BellwireClient(
        BellwireClient.Configuration(
            url = "mqtt://a", user = "alice", device = "phone", transport = broker,
            token = { "token-${asked.incrementAndGet()}" }, clock = { System.nanoTime() / 1_000_000 + slept.get() },
        ),
    )

    @After
    fun end() {
        runBlocking { client.disconnect() }
        scope.cancel()
    }

    private fun eventually(condition: () -> Boolean) {
        val end = System.nanoTime() + 10_000_000_000
        while (!condition()) {
            assertTrue("not within 10 s", System.nanoTime() < end)
            Thread.sleep(1)
        }
    }

    private fun connect(rest: String = "") = runBlocking {
        val connecting = scope.async { client.connect() }
        eventually { broker.links.isNotEmpty() }
        broker.last.accept()
        eventually { broker.last.published.isNotEmpty() }
        broker.last.welcome(rest)
        withTimeout(10_000) { connecting.await() }
    }

    private fun request() = scope.async { client.users(listOf("bob")) }.also {
        eventually { broker.last.published.any { (_, payload) -> "user.query" in payload } }
    }

    private fun codeOf(request: kotlinx.coroutines.Deferred<*>): String = runBlocking {
        val outcome = withTimeout(10_000) { runCatching { request.await() } }
        (outcome.exceptionOrNull() as BellwireException).code
    }

    @Test
    fun aRequestWhoseTimeIsOverFailsWhenTheAppComesToTheForeground() {
        connect()
        val open = request()
        slept.addAndGet(60_000)
        client.networkChanged()
        assertEquals("noResponse", codeOf(open))
    }

    @Test
    fun aPushWakesTheClientAsWell() {
        connect()
        val open = request()
        slept.addAndGet(60_000)
        val finding = scope.async { client.find("c") }
        assertEquals("noResponse", codeOf(open))
        finding.cancel()
    }

    @Test
    fun aTokenThatEndedDuringTheSleepIsReplaced() {
        connect(""","tokenExpiresAt":3600000""")
        slept.addAndGet(4_000_000)
        client.networkChanged()
        eventually { broker.links.size == 2 }
        assertEquals("token-2", broker.last.settings.password)
    }

    @Test
    fun aCallCountsTheTimeOfTheSleep() {
        connect()
        val calling = scope.async { client.call(listOf("bob"), CallOptions(callID = "c")) }
        eventually { client.calls.isNotEmpty() }
        val call = client.calls.single()
        slept.addAndGet(60_000)
        assertTrue("${call.elapsed}", call.elapsed in 60_000..80_000)
        calling.cancel()
    }
}
