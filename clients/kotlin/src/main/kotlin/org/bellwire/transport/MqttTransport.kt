package org.bellwire.transport

import java.io.IOException
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.ScheduledFuture
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit
import javax.net.ssl.SSLContext
import javax.net.ssl.SSLException

/** The time limit for the broker's answers to CONNECT and SUBSCRIBE, in milliseconds. */
private const val HANDSHAKE_LIMIT = 10_000L

/** The time limit for the broker's sign of life, in milliseconds. */
private const val LONGEST_ANSWER = 5_000L

/** The time that the last bytes of a connection have to leave, in milliseconds. */
private const val LONGEST_GOODBYE = 1_000L

/** The largest accepted packet, in bytes. The service sends at most 256 KiB (docs/protocol.md, section 1). */
private const val MAXIMUM_PACKET_SIZE = 524_288

/** The number of unsent bytes beyond which the broker counts as not reading. */
private const val LONGEST_BACKLOG = 4_194_304

/** The bound on own QoS 1 messages without an acknowledgement of the broker. */
private const val INFLIGHT_LIMIT = 1_000

/** The packet id of the SUBSCRIBE. */
private const val SUBSCRIBE_ID = 1

/**
 * MQTT 5 over TCP (`mqtt://`, port 1883), TLS (`mqtts://`, port 8883), a WebSocket (`ws://`, port 80) or a WebSocket
 * over TLS (`wss://`, port 443).
 *
 * @param sslContext The trusted authorities; the JVM's or Android's own when null. The broker's certificate must name
 *   the host of the address.
 */
public class MqttTransport(private val sslContext: SSLContext? = null) : Transport {
    override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection =
        MqttConnection(BrokerAddress(settings.url), sslContext, settings, handlers).apply { begin() }
}

private val reasonTexts = mapOf(
    0x80 to "unspecified error", 0x84 to "unsupported protocol version", 0x85 to "client id not valid",
    0x86 to "bad user name or password", 0x87 to "not authorized", 0x88 to "server unavailable", 0x89 to "server busy",
    0x8a to "banned", 0x8b to "server shutting down", 0x8c to "bad authentication method",
    0x8d to "keep alive timeout", 0x8e to "session taken over", 0x93 to "receive maximum exceeded",
    0x95 to "packet too large", 0x97 to "quota exceeded", 0x98 to "administrative action",
    0x9c to "use another server", 0x9f to "connection rate exceeded",
)

private fun reasonText(reason: Int, text: String?): String =
    text ?: reasonTexts[reason] ?: "reason 0x${reason.toString(16)}"

/** The reason codes of a refusal that concerns this device, not the broker's state. */
private val personalReasons = setOf(0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c)

/** The reason code with which a broker disconnects a client when another client connects under the same id. */
private const val SESSION_TAKEN_OVER = 0x8e

/**
 * A connection with two threads: the reader opens the connection and handles packets, the writer sends packets. The
 * lock guards the state; no handler is called with the lock held.
 */
private class MqttConnection(
    private val address: BrokerAddress,
    private val sslContext: SSLContext?,
    private val settings: ConnectionSettings,
    private val handlers: ConnectionHandlers,
) : Connection {
    private val lock = Any()
    private val parser = PacketParser(MAXIMUM_PACKET_SIZE)

    /** The packets that wait for the writer; an empty array ends the writer. */
    private val outbound = LinkedBlockingQueue<ByteArray>()
    private var stream: ByteStream? = null

    @Volatile
    private var writer: Thread? = null
    private var isClosed = false
    private var isAccepted = false
    private var isSubscribed = false
    private var handshakeLimit: ScheduledFuture<*>? = null
    private var nextPing: ScheduledFuture<*>? = null

    /** The time limit of the awaited sign of life; null when no sign is awaited. */
    private var answerLimit: ScheduledFuture<*>? = null
    private var receiveMaximum = INFLIGHT_LIMIT
    private var maximumOut = Long.MAX_VALUE

    /** The packet ids of own messages without an acknowledgement of the broker. */
    private val inflight = HashSet<Int>()
    private var packetID = SUBSCRIBE_ID
    private var waitingBytes = 0

    fun begin() {
        handshakeLimit = timer(HANDSHAKE_LIMIT) { end("${address.name} does not answer") }
        thread("bellwire-read") { read() }
    }

    override val backlog: Int get() = synchronized(lock) { waitingBytes }

    override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
        val packet = synchronized(lock) {
            if (isClosed) return true
            // Messages beyond the broker's limit have QoS 0: correctness rests on resends, not on QoS.
            val id = if (settings.qos == 1 && inflight.size < receiveMaximum) nextPacketID() else null
            val packet = publishPacket(topic, payload.toByteArray(), id, expiry)
            if (packet.size > maximumOut) return false
            id?.let(inflight::add)
            packet
        }
        send(packet)
        return true
    }

    override fun ask() {
        synchronized(lock) {
            if (isClosed || !isSubscribed || answerLimit != null) return
            answerLimit = timer(LONGEST_ANSWER) { end("the broker no longer answers") }
        }
        send(pingreqPacket())
    }

    /** Waits for the last packets, such as the goodbye of a program that ends, for at most `LONGEST_GOODBYE`. */
    override fun close() {
        synchronized(lock) {
            if (isClosed) return
            if (isAccepted) outbound += disconnectPacket()
            release()
        }
        writer?.join(LONGEST_GOODBYE)
    }

    private fun nextPacketID(): Int {
        do packetID = packetID % 65_535 + 1 while (packetID == SUBSCRIBE_ID || packetID in inflight)
        return packetID
    }

    // MARK: Sending

    private fun send(packet: ByteArray) {
        val isTooMuch = synchronized(lock) {
            if (isClosed) return
            waitingBytes += packet.size
            outbound += packet
            waitingBytes > LONGEST_BACKLOG
        }
        if (isTooMuch) end("the broker no longer reads")
    }

    private fun write(stream: ByteStream) {
        try {
            while (true) {
                val packet = outbound.take()
                if (packet.isEmpty()) break
                stream.write(packet)
                synchronized(lock) { waitingBytes -= packet.size }
            }
        } catch (_: Throwable) {
            end("the connection broke", isDropped = synchronized(lock) { isAccepted })
        } finally {
            stream.close()
        }
    }

    // MARK: Receiving

    private fun read() {
        try {
            val opened = address.open(sslContext, HANDSHAKE_LIMIT.toInt()) { opening ->
                synchronized(lock) {
                    stream = opening
                    isClosed
                }
            }
            writer = thread("bellwire-write") { write(opened) }
            send(connectPacket(settings, MAXIMUM_PACKET_SIZE))
            val bytes = ByteArray(16_384)
            while (true) {
                val count = opened.read(bytes)
                if (count < 0) break
                synchronized(lock) {
                    answerLimit?.cancel(false)
                    answerLimit = null
                }
                for (packet in parser.push(bytes, count)) {
                    if (synchronized(lock) { isClosed }) return
                    handle(packet)
                }
            }
            broke(null)
        } catch (exception: PacketException) {
            end("the broker sent no MQTT 5: ${exception.message}")
        } catch (failure: Throwable) {
            // Also a missing permission, TLS that is not there, or too little memory: none may end the app.
            broke(failure)
        }
    }

    private fun broke(cause: Throwable?) {
        val (wasSubscribed, wasAccepted) = synchronized(lock) { isSubscribed to isAccepted }
        val because = cause?.let { ": ${it.message ?: it}" } ?: ""
        val message = when {
            wasSubscribed -> "the connection broke"
            cause is SSLException -> "TLS with ${address.name} failed$because"
            else -> "${address.name} cannot be reached$because"
        }
        end(message, isDropped = wasAccepted)
    }

    private fun handle(packet: InboundPacket) {
        val isFirst = !synchronized(lock) { isAccepted }
        if (packet !is InboundPacket.Disconnect && isFirst != packet is InboundPacket.Connack) {
            throw PacketException("a ${packet.javaClass.simpleName} ${if (isFirst) "before" else "after"} the CONNACK")
        }
        when (packet) {
            is InboundPacket.Connack -> connected(packet)
            is InboundPacket.Suback -> {
                if (packet.reasons.any { it >= 0x80 }) {
                    return end("the broker refuses this device its topics: not authorized", isRefused = true)
                }
                synchronized(lock) {
                    handshakeLimit?.cancel(false)
                    isSubscribed = true
                }
                handlers.subscribed()
            }
            is InboundPacket.Publish -> {
                // The service retains no messages, and sends no payload that is not UTF-8.
                if (!packet.isRetained) decodeText(packet.payload)?.let(handlers::message)
                packet.packetID?.let { send(pubackPacket(it)) }
            }
            is InboundPacket.Puback -> synchronized(lock) { inflight.remove(packet.packetID) }
            is InboundPacket.Pingresp -> Unit
            is InboundPacket.Disconnect -> end(
                "the broker ended the connection: ${reasonText(packet.reason, packet.reasonString)}",
                isTakenOver = packet.reason == SESSION_TAKEN_OVER, isDropped = packet.reason == 0,
            )
        }
    }

    private fun connected(packet: InboundPacket.Connack) {
        if (packet.reason != 0) {
            val text = reasonText(packet.reason, packet.reasonString)
            return end("the broker refuses this device: $text", isRefused = packet.reason in personalReasons)
        }
        synchronized(lock) {
            receiveMaximum = if (packet.maximumQoS == 0) 0 else minOf(packet.receiveMaximum, INFLIGHT_LIMIT)
            maximumOut = packet.maximumPacketSize
            isAccepted = true
        }
        keepAlive(packet.serverKeepAlive ?: settings.keepAlive)
        handlers.accepted()
        send(subscribePacket(SUBSCRIBE_ID, settings.subscriptions, settings.qos))
    }

    /** Pings twice per keep-alive period, since a sleeping phone's timers may be late. */
    private fun keepAlive(seconds: Int) {
        if (seconds <= 0) return
        synchronized(lock) {
            if (isClosed) return
            nextPing = timer(seconds * 500L) {
                ask()
                keepAlive(seconds)
            }
        }
    }

    // MARK: The end

    private fun end(
        message: String,
        isRefused: Boolean = false,
        isTakenOver: Boolean = false,
        isDropped: Boolean = false,
    ) {
        synchronized(lock) {
            if (isClosed) return
            release()
        }
        handlers.closed(ConnectionFailure(message, isRefused, isTakenOver, isDropped))
    }

    /** Ends the threads. A writer that the broker does not read from ends when the stream is closed. */
    private fun release() {
        isClosed = true
        handshakeLimit?.cancel(false)
        nextPing?.cancel(false)
        answerLimit?.cancel(false)
        outbound += ByteArray(0)
        val opened = stream ?: return
        if (isAccepted) timer(LONGEST_GOODBYE) { opened.close() } else opened.close()
    }

    private companion object {
        /** The timers of all connections. Their tasks are short. */
        private val timers = ScheduledThreadPoolExecutor(1) { Thread(it, "bellwire-timers").apply { isDaemon = true } }
            .apply { removeOnCancelPolicy = true }

        fun timer(delay: Long, task: () -> Unit): ScheduledFuture<*> = timers.schedule(task, delay, TimeUnit.MILLISECONDS)

        fun thread(name: String, task: () -> Unit): Thread =
            Thread(task, name).apply {
                isDaemon = true
                start()
            }
    }
}
