package org.bellwire.transport

import java.io.ByteArrayOutputStream
import java.io.IOException
import java.security.MessageDigest
import java.security.SecureRandom

/** The largest response to the opening handshake, in bytes. */
private const val LONGEST_RESPONSE = 16_384

/** The largest frame that the broker may send, in bytes; larger than the largest MQTT packet. */
private const val LONGEST_FRAME = 1_048_576

private const val CONTINUATION = 0x0
private const val BINARY = 0x2
private const val CLOSE = 0x8
private const val PING = 0x9
private const val PONG = 0xa

/** A WebSocket (RFC 6455) whose binary messages are a stream of bytes, as MQTT 5 has it (section 6). */
internal class WebSocketStream(
    private val stream: ByteStream,
    private val authority: String,
    private val path: String,
) : ByteStream {
    private val random = SecureRandom()
    private val buffer = ByteArray(16_384)
    private var start = 0
    private var end = 0

    /** The bytes that are left of the current frame. */
    private var left = 0L

    /** The opening handshake. */
    fun shakeHands() {
        val key = base64(ByteArray(16).also(random::nextBytes))
        val request = "GET $path HTTP/1.1\r\nHost: $authority\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
            "Sec-WebSocket-Key: $key\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        stream.write(request.toByteArray(Charsets.ISO_8859_1))
        val lines = readResponse().split("\r\n")
        val status = lines.first().split(" ").getOrNull(1)
        if (status != "101") throw IOException("no WebSocket there: ${lines.first().take(80)}")
        val headers = lines.drop(1).associate { line ->
            line.substringBefore(":").trim().lowercase() to line.substringAfter(":", "").trim()
        }
        val digest = MessageDigest.getInstance("SHA-1").digest((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").toByteArray())
        if (headers["sec-websocket-accept"] != base64(digest)) throw IOException("the WebSocket handshake has a wrong key")
        if (headers["sec-websocket-protocol"] != "mqtt") throw IOException("the WebSocket does not speak MQTT")
    }

    private fun readResponse(): String {
        val text = StringBuilder()
        while (!text.endsWith("\r\n\r\n")) {
            if (text.length > LONGEST_RESPONSE) throw IOException("the WebSocket handshake is too long")
            text.append(readByte().toChar())
        }
        return text.toString()
    }

    // MARK: Reading

    override fun read(bytes: ByteArray): Int {
        while (left == 0L) if (!readHeader()) return -1
        if (start == end && !fill()) return -1
        val count = minOf(left, (end - start).toLong(), bytes.size.toLong()).toInt()
        System.arraycopy(buffer, start, bytes, 0, count)
        start += count
        left -= count
        return count
    }

    /** Reads the header of a frame, and answers control frames. Returns false when the broker has closed. */
    private fun readHeader(): Boolean {
        val first = readByte()
        val second = readByte()
        val opcode = first and 0x0f
        if (first and 0x70 != 0 || second and 0x80 != 0) throw IOException("the broker sent no WebSocket frame")
        val length = when (val short = second and 0x7f) {
            126 -> readInteger(2)
            127 -> readInteger(8)
            else -> short.toLong()
        }
        if (length !in 0..LONGEST_FRAME) throw IOException("a WebSocket frame is larger than $LONGEST_FRAME bytes")
        if (opcode == BINARY || opcode == CONTINUATION) {
            left = length
            return true
        }
        if (opcode < CLOSE) throw IOException("a WebSocket frame is not binary")
        if (length > 125) throw IOException("a WebSocket control frame is larger than 125 bytes")
        val payload = ByteArray(length.toInt()) { readByte().toByte() }
        if (opcode == PING) writeFrame(PONG, payload)
        return opcode != CLOSE
    }

    private fun readByte(): Int {
        if (start == end && !fill()) throw IOException("the connection was closed")
        return buffer[start++].toInt() and 255
    }

    private fun readInteger(count: Int): Long = (1..count).fold(0L) { value, _ -> value shl 8 or readByte().toLong() }

    private fun fill(): Boolean {
        start = 0
        end = maxOf(stream.read(buffer), 0)
        return end > 0
    }

    // MARK: Writing

    override fun write(bytes: ByteArray) = writeFrame(BINARY, bytes)

    /** Writers are two threads: a ping is answered by the thread that reads. */
    @Synchronized
    private fun writeFrame(opcode: Int, payload: ByteArray) {
        val frame = ByteArrayOutputStream(payload.size + 14)
        frame.write(0x80 or opcode)
        when {
            payload.size < 126 -> frame.write(0x80 or payload.size)
            payload.size < 65_536 -> {
                frame.write(0x80 or 126)
                for (shift in listOf(8, 0)) frame.write(payload.size ushr shift)
            }
            else -> {
                frame.write(0x80 or 127)
                for (shift in 56 downTo 0 step 8) frame.write((payload.size.toLong() ushr shift).toInt())
            }
        }
        val mask = ByteArray(4).also(random::nextBytes)
        frame.write(mask, 0, 4)
        for (index in payload.indices) frame.write(payload[index].toInt() xor mask[index and 3].toInt())
        stream.write(frame.toByteArray())
    }

    override fun close() = stream.close()
}

/** Base64 with padding. Android has `java.util.Base64` only since API level 26. */
private fun base64(bytes: ByteArray): String {
    val alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return buildString {
        for (offset in bytes.indices step 3) {
            val taken = minOf(3, bytes.size - offset)
            val word = (0..2).fold(0) { word, index -> word shl 8 or if (index < taken) bytes[offset + index].toInt() and 255 else 0 }
            for (index in 0..3) append(if (index <= taken) alphabet[word shr (18 - 6 * index) and 63] else '=')
        }
    }
}
