package org.bellwire

import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.launch
import kotlinx.serialization.json.JsonPrimitive
import org.bellwire.transport.ConnectionFailure
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.ByteArrayOutputStream
import java.io.PrintStream
import java.io.PrintWriter
import java.io.StringWriter
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

class LogTest {
    private val lines = CopyOnWriteArrayList<Pair<LogLevel, String>>()
    private val log = BellwireLog { level, text, failure ->
        val trace = StringWriter()
        failure?.printStackTrace(PrintWriter(trace))
        lines += level to "$text $trace"
    }
    private var loop = VirtualLoop()
    private val broker = FakeBroker()
    private val scope = CoroutineScope(Dispatchers.Unconfined + SupervisorJob())

    private fun start(block: suspend () -> Unit) {
        scope.launch(start = CoroutineStart.UNDISPATCHED) { runCatching { block() } }
        loop.run()
    }

    private fun has(level: LogLevel, text: String) = lines.any { it.first == level && text in it.second }

    /** A client that connects, fails, and carries secrets in tokens, messages, addresses and exceptions. */
    @Test
    fun theLogTellsWhatHappensAndNoSecret() {
        val secret = "s3cr3t"
        var asked = 0
        val client = BellwireClient(
            BellwireClient.Configuration(
                "mqtt://user:$secret@a/?token=$secret", "alice", "phone", transport = broker, log = log,
                token = { if (++asked == 1) secret else error("no token at https://t/?key=$secret") },
            ),
        ) { VirtualLoop().also { loop = it } }
        start { client.connect() }
        val end = System.nanoTime() + 10_000_000_000
        while (broker.links.isEmpty() && System.nanoTime() < end) loop.run()
        broker.last.accept()
        loop.run()
        broker.last.welcome()
        loop.run()
        start { client.send("bob", JsonPrimitive(secret)) }
        val from = """"from":"bob","fromDevice":"d""""
        broker.last.handlers.message("""{"type":"message","messageID":"m",$from,"time":1,"data":"$secret"}""")
        broker.last.handlers.message("{$secret")
        loop.run()
        broker.last.publishFails = true
        start { client.users(listOf("bob")) }
        broker.last.handlers.closed(ConnectionFailure("the broker does not like $secret"))
        loop.run()
        loop.pass(300)
        while (lines.none { "the token provider failed" in it.second } && System.nanoTime() < end) loop.run()
        start { client.disconnect() }
        assertTrue("$lines", has(LogLevel.DEBUG, "connects to mqtt://a/"))
        assertTrue("$lines", has(LogLevel.INFO, "the service knows the device"))
        assertTrue("$lines", has(LogLevel.DEBUG, "begins: message.send"))
        assertTrue("$lines", has(LogLevel.DEBUG, "ignores a message of"))
        val fault = "the transport has thrown java.lang.Throwable: java.lang.IllegalStateException"
        assertTrue("$lines", has(LogLevel.WARNING, fault))
        assertTrue("$lines", has(LogLevel.INFO, "has ended: the broker does not like …"))
        assertTrue("$lines", has(LogLevel.INFO, "the token provider failed: java.lang.IllegalStateException"))
        assertFalse("$lines", lines.any { secret in it.second })
    }

    @Test
    fun aFaultIsAWarningAndALogThatThrowsEndsNothing() {
        val told = CopyOnWriteArrayList<String>()
        val failing = BellwireLog { _, text, failure ->
            told += "$text ${failure?.stackTrace?.isNotEmpty()} ${failure?.cause?.message}"
            error("the log is full")
        }
        val loop = ThreadLoop("log", log = ClientLog(failing))
        val hasRun = CountDownLatch(1)
        loop.post { throw IllegalStateException("a secret", IllegalArgumentException("another")) }
        loop.post(hasRun::countDown)
        assertTrue(hasRun.await(10, TimeUnit.SECONDS))
        loop.end()
        assertEquals(listOf("a fault of the SDK true java.lang.IllegalArgumentException"), told)
    }

    @Test
    fun withoutALogOnlyWarningsAreShown() {
        val shown = ByteArrayOutputStream()
        val before = System.err
        System.setErr(PrintStream(shown, true))
        try {
            ClientLog(null).info("quiet")
            ClientLog(null).debug { "quieter" }
            ClientLog(null).warning("loud")
        } finally {
            System.setErr(before)
        }
        assertEquals("bellwire: loud", shown.toString().trim())
    }
}
