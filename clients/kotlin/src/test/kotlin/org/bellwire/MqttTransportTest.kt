package org.bellwire

import org.bellwire.transport.Connection
import org.bellwire.transport.ConnectionFailure
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.MqttTransport
import org.bellwire.transport.publishPacket
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.InputStream
import java.io.OutputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.security.MessageDigest
import java.util.Base64
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Connections to servers on loopback that are no good brokers. */
class MqttTransportTest {
    private val servers = mutableListOf<ServerSocket>()
    private val told = LinkedBlockingQueue<String>()
    private val connections = mutableListOf<Connection>()

    @After
    fun end() {
        connections.forEach { it.close() }
        servers.forEach { it.close() }
    }

    private fun bytes(vararg values: Int) = ByteArray(values.size) { values[it].toByte() }

    private val connack = bytes(0x20, 3, 0, 0, 0)
    private val suback = bytes(0x90, 5, 0, 1, 0, 1, 1)

    /** Connects to a server that does this with each connection, over TLS for `mqtts` and `wss`. */
    private fun connect(scheme: String = "mqtt", serve: (InputStream, OutputStream) -> Unit): Connection {
        val tls = if (scheme == "mqtts" || scheme == "wss") TestCertificate.context else null
        val address = InetAddress.getByName("127.0.0.1")
        val server = tls?.serverSocketFactory?.createServerSocket(0, 5, address) ?: ServerSocket(0, 5, address)
        servers += server
        thread(isDaemon = true) {
            runCatching {
                while (true) {
                    val socket = server.accept()
                    thread(isDaemon = true) { runCatching { socket.use { serve(it.getInputStream(), it.getOutputStream()) } } }
                }
            }
        }
        val settings = ConnectionSettings(
            "$scheme://127.0.0.1:${server.localPort}", "c", "u", null, 90, "w", "{}",
            listOf("a", "b"),
        )
        val handlers = object : ConnectionHandlers {
            override fun accepted() = told.put("accepted")
            override fun subscribed() = told.put("subscribed")
            override fun message(payload: String) = told.put("message ${payload.take(20)} ${payload.length}")
            override fun closed(failure: ConnectionFailure) = told.put("closed: ${failure.message}")
        }
        return MqttTransport(tls).connect(settings, handlers).also(connections::add)
    }

    private fun expect(text: String) {
        val next = told.poll(10, TimeUnit.SECONDS).orEmpty()
        assertTrue("$next, not $text", next.startsWith(text))
    }

    private fun InputStream.packet() {
        read()
        val length = read()
        repeat(length) { read() }
    }

    @Test
    fun aServerThatIsNoBrokerIsLeft() {
        connect { input, output ->
            input.packet()
            output.write("HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".toByteArray())
            input.read()
        }
        expect("closed: the broker sent no MQTT 5")
        connect { input, output ->
            input.packet()
            output.write(suback)
            input.read()
        }
        expect("closed: the broker sent no MQTT 5: a Suback before the CONNACK")
        connect { input, output ->
            input.packet()
            output.write(connack + connack)
            input.read()
        }
        expect("accepted")
        expect("closed: the broker sent no MQTT 5: a Connack after the CONNACK")
        connect { _, _ -> }
        expect("closed: mqtt://127.0.0.1")
    }

    /** Answers the HTTP request that begins a WebSocket. */
    private fun shakeHands(input: InputStream, output: OutputStream) {
        val request = StringBuilder()
        while (!request.endsWith("\r\n\r\n")) request.append(input.read().toChar())
        val key = Regex("Sec-WebSocket-Key: (.*)\r").find(request)!!.groupValues[1]
        val challenge = (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").toByteArray()
        val answer = Base64.getEncoder().encodeToString(MessageDigest.getInstance("SHA-1").digest(challenge))
        output.write(
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
                "Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Accept: $answer\r\n\r\n").toByteArray(),
        )
    }

    private fun frame(head: Int, payload: ByteArray) = bytes(head, payload.size) + payload

    @Test
    fun framesOfAWebSocketMayBeCutAndMixedAtWill() {
        val pongs = LinkedBlockingQueue<Int>()
        connect("ws") { input, output ->
            shakeHands(input, output)
            // A packet in three fragments with a ping between them, an empty frame, two packets in the same frame.
            val message = publishPacket("t", "hello".toByteArray(), 7, null)
            output.write(frame(0x02, connack.copyOfRange(0, 2)) + frame(0x00, connack.copyOfRange(2, 3)) + frame(0x89, bytes(1, 2)))
            output.write(frame(0x80, connack.copyOfRange(3, 5)) + frame(0x82, bytes()) + frame(0x82, suback + message))
            while (true) {
                val head = input.read()
                if (head < 0) break
                val length = input.read() and 127
                repeat(4 + length) { input.read() }
                if (head == 0x8a) pongs.put(length)
            }
        }
        expect("accepted")
        expect("subscribed")
        expect("message hello 5")
        assertEquals(2, pongs.poll(10, TimeUnit.SECONDS))
    }

    @Test
    fun aWebSocketOverTLSIsABrokersConnection() {
        connect("wss") { input, output ->
            shakeHands(input, output)
            output.write(frame(0x82, connack + suback + publishPacket("t", "hello".toByteArray(), 7, null)))
            input.read()
        }
        expect("accepted")
        expect("subscribed")
        expect("message hello 5")
    }

    /** Connects to a broker that reads the first packet and then nothing more. */
    private fun connectToAMuteBroker(scheme: String): Connection = connect(scheme) { input, output ->
        if (scheme == "wss") {
            shakeHands(input, output)
            output.write(frame(0x82, connack + suback))
        } else {
            input.packet()
            output.write(connack + suback)
        }
        Thread.sleep(60_000)
    }.also {
        expect("accepted")
        expect("subscribed")
    }

    private val threads: List<Thread>
        get() = Thread.getAllStackTraces().keys.filter { it.name == "bellwire-read" || it.name == "bellwire-write" }

    /** Waits until the transport has no thread that was not there before. */
    private fun expectNoThreads(before: List<Thread>) {
        val end = System.nanoTime() + 5_000_000_000
        while ((threads - before).isNotEmpty()) {
            assertTrue("left: ${threads - before}", System.nanoTime() < end)
            Thread.sleep(10)
        }
    }

    @Test
    fun aBrokerThatStopsReadingIsLeft() {
        for (scheme in listOf("mqtt", "mqtts", "wss")) {
            val before = threads
            val connection = connectToAMuteBroker(scheme)
            repeat(100) { connection.publish("t", "x".repeat(100_000)) }
            expect("closed: the broker no longer reads")
            expectNoThreads(before)
        }
    }

    /** The writer stands in the middle of a write, and the goodbye cannot leave. */
    @Test
    fun aConnectionToABrokerThatStopsReadingClosesInTime() {
        for (scheme in listOf("mqtt", "mqtts", "wss")) {
            val before = threads
            val connection = connectToAMuteBroker(scheme)
            // Less than the backlog at which the transport gives up, and more than the buffers of the sockets take.
            val end = System.nanoTime() + 10_000_000_000
            var waiting = -1
            while (connection.backlog == 0 || connection.backlog != waiting) {
                assertTrue("$scheme: the broker still reads", System.nanoTime() < end)
                waiting = connection.backlog
                if (waiting < 3_000_000) repeat(10) { connection.publish("t", "x".repeat(100_000)) }
                Thread.sleep(100)
            }
            val began = System.nanoTime()
            connection.close()
            val took = (System.nanoTime() - began) / 1_000_000
            assertTrue("$scheme: $took ms", took < 3_000)
            expectNoThreads(before)
        }
    }
}
