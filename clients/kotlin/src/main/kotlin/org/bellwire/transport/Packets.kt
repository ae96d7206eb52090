package org.bellwire.transport

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction

/*
 * The part of MQTT 5 that a device needs: the packets that a device sends, and a parser of the packets that a device
 * may receive. QoS 0 and 1 only; every size is bounded.
 */

/** A packet violates MQTT 5 or exceeds this client's maximum size. The connection cannot be used any more. */
internal class PacketException(message: String) : Exception(message)

internal sealed interface InboundPacket {
    class Connack(
        val reason: Int,
        /** The broker's description of the reason. */
        val reasonString: String?,
        /** The number of unacknowledged QoS 1 messages that the broker accepts. */
        val receiveMaximum: Int,
        /** The largest packet that the broker accepts, in bytes. */
        val maximumPacketSize: Long,
        /** 0 when the broker does not accept QoS 1. */
        val maximumQoS: Int,
        /** The broker's own keep-alive in seconds; null when the broker accepts the client's keep-alive. */
        val serverKeepAlive: Int?,
    ) : InboundPacket

    class Suback(val reasons: List<Int>) : InboundPacket
    class Publish(val payload: ByteArray, val isRetained: Boolean, val packetID: Int?) : InboundPacket
    class Puback(val packetID: Int) : InboundPacket
    object Pingresp : InboundPacket
    class Disconnect(val reason: Int, val reasonString: String?) : InboundPacket
}

/** Decodes UTF-8; null when the bytes are not UTF-8. */
internal fun decodeText(bytes: ByteArray): String? = try {
    Charsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
        .onUnmappableCharacter(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(bytes)).toString()
} catch (_: CharacterCodingException) {
    null
}

// MARK: Writing

/** The fields of a packet. */
private class Fields {
    private val bytes = ByteArrayOutputStream()

    fun byte(value: Int) = apply { bytes.write(value) }
    fun uint16(value: Int) = byte(value shr 8).byte(value)
    fun uint32(value: Int) = uint16(value ushr 16).uint16(value)
    fun raw(value: ByteArray) = apply { bytes.write(value, 0, value.size) }

    fun variableInteger(value: Int) = apply {
        var rest = value
        do {
            byte((rest and 127) or (if (rest > 127) 128 else 0))
            rest = rest ushr 7
        } while (rest > 0)
    }

    /** A string or binary field with its length prefix. */
    fun field(value: ByteArray) = apply {
        if (value.size > 0xffff) throw PacketException("a field is longer than 65,535 bytes")
        uint16(value.size).raw(value)
    }

    fun text(value: String) = field(value.toByteArray())
    fun toByteArray(): ByteArray = bytes.toByteArray()
}

private fun packet(header: Int, fields: Fields = Fields()): ByteArray {
    val body = fields.toByteArray()
    return Fields().byte(header).variableInteger(body.size).raw(body).toByteArray()
}

/**
 * A CONNECT with clean start and without session expiry: the service, not the broker's queue, brings a device up to
 * date (section 1). `maximumPacketSize`: the largest packet that the broker may send, in bytes.
 */
internal fun connectPacket(settings: ConnectionSettings, maximumPacketSize: Int): ByteArray {
    // Clean start, a will with QoS 1, a user name, perhaps a password.
    val flags = 0x02 or 0x04 or 0x08 or 0x80 or if (settings.password == null) 0 else 0x40
    val fields = Fields().text("MQTT").byte(5).byte(flags).uint16(settings.keepAlive)
        // The property Maximum Packet Size.
        .byte(5).byte(0x27).uint32(maximumPacketSize)
        .text(settings.clientID)
        .byte(0).text(settings.willTopic).text(settings.willPayload)
        .text(settings.username)
    settings.password?.let(fields::text)
    return packet(0x10, fields)
}

/** A SUBSCRIBE for all filters. */
internal fun subscribePacket(packetID: Int, filters: List<String>, qos: Int): ByteArray {
    val fields = Fields().uint16(packetID).byte(0)
    for (filter in filters) fields.text(filter).byte(qos)
    return packet(0x82, fields)
}

/** Without `packetID` the message has QoS 0. `expiry`: seconds after which the broker drops the message undelivered. */
internal fun publishPacket(topic: String, payload: ByteArray, packetID: Int?, expiry: Int?): ByteArray {
    val fields = Fields().text(topic)
    packetID?.let(fields::uint16)
    if (expiry == null) fields.byte(0) else fields.byte(5).byte(0x02).uint32(expiry)
    return packet(0x30 or if (packetID == null) 0 else 2, fields.raw(payload))
}

internal fun pubackPacket(packetID: Int): ByteArray = packet(0x40, Fields().uint16(packetID))

internal fun pingreqPacket(): ByteArray = packet(0xc0)

/** A normal DISCONNECT; the broker drops the will. */
internal fun disconnectPacket(): ByteArray = packet(0xe0)

// MARK: Reading

/** A reader of a packet's fields, in order. */
private class PacketReader(private val bytes: ByteArray, private var offset: Int, private val end: Int) {
    val isAtEnd get() = offset == end

    fun take(count: Int): ByteArray {
        if (count > end - offset) throw PacketException("a packet ends too early")
        offset += count
        return bytes.copyOfRange(offset - count, offset)
    }

    fun integer(count: Int): Long = take(count).fold(0L) { value, byte -> value * 256 + (byte.toInt() and 255) }

    fun variableInteger(): Int {
        var value = 0
        for (shift in 0..21 step 7) {
            val byte = integer(1).toInt()
            value += (byte and 127) shl shift
            if (byte < 128) return value
        }
        throw PacketException("a variable byte integer is too long")
    }

    fun text(): String = decodeText(take(integer(2).toInt())) ?: throw PacketException("a string is not UTF-8")

    fun rest(): ByteArray = take(end - offset)

    /**
     * Reads the properties by identifier (MQTT 5, section 2.2.2.2). The result has the numbers and the reason string;
     * other properties are skipped.
     */
    fun properties(): Properties {
        val found = Properties()
        if (isAtEnd) return found
        val length = variableInteger()
        if (length > end - offset) throw PacketException("a packet ends too early")
        val inner = PacketReader(bytes, offset, offset + length)
        offset += length
        while (!inner.isAtEnd) {
            val id = inner.variableInteger()
            when (id) {
                0x0b -> found.numbers[id] = inner.variableInteger().toLong()
                0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2a -> found.numbers[id] = inner.integer(1)
                0x13, 0x21, 0x22, 0x23 -> found.numbers[id] = inner.integer(2)
                0x02, 0x11, 0x18, 0x27 -> found.numbers[id] = inner.integer(4)
                0x1f -> found.reasonString = inner.text()
                0x03, 0x08, 0x12, 0x15, 0x1a, 0x1c -> inner.text()
                0x09, 0x16 -> inner.take(inner.integer(2).toInt())
                0x26 -> repeat(2) { inner.text() }
                else -> throw PacketException("unknown property $id")
            }
        }
        return found
    }

    class Properties {
        val numbers = mutableMapOf<Int, Long>()
        var reasonString: String? = null
    }
}

private fun readPacket(header: Int, reader: PacketReader): InboundPacket = when (header shr 4) {
    2 -> {
        reader.take(1)
        val reason = reader.integer(1).toInt()
        val properties = reader.properties()
        val numbers = properties.numbers
        InboundPacket.Connack(
            reason = reason,
            reasonString = properties.reasonString,
            receiveMaximum = numbers[0x21]?.toInt() ?: 65_535,
            maximumPacketSize = numbers[0x27] ?: Long.MAX_VALUE,
            maximumQoS = numbers[0x24]?.toInt() ?: 2,
            serverKeepAlive = numbers[0x13]?.toInt(),
        )
    }
    3 -> {
        val qos = (header shr 1) and 3
        // This client subscribes with QoS 0 or 1, so QoS 2 is an error.
        if (qos > 1) throw PacketException("a PUBLISH has QoS 2")
        reader.text()
        val packetID = if (qos > 0) reader.integer(2).toInt() else null
        reader.properties()
        InboundPacket.Publish(reader.rest(), isRetained = header and 1 == 1, packetID = packetID)
    }
    4 -> InboundPacket.Puback(reader.integer(2).toInt())
    9 -> {
        reader.take(2)
        reader.properties()
        InboundPacket.Suback(reader.rest().map { it.toInt() and 255 })
    }
    13 -> InboundPacket.Pingresp
    14 -> {
        val reason = if (reader.isAtEnd) 0 else reader.integer(1).toInt()
        InboundPacket.Disconnect(reason, reader.properties().reasonString)
    }
    else -> throw PacketException("unexpected packet of type ${header shr 4}")
}

/**
 * A parser that takes bytes in pieces of any size and returns whole packets. `maximumPacketSize` in bytes; the parser
 * does not buffer larger packets.
 */
internal class PacketParser(private val maximumPacketSize: Int) {
    private var bytes = ByteArray(1_024)
    private var count = 0

    /** Throws `PacketException`. The parser cannot be used afterwards. */
    fun push(input: ByteArray, length: Int = input.size): List<InboundPacket> {
        append(input, length)
        val packets = mutableListOf<InboundPacket>()
        var offset = 0
        while (true) {
            val (start, end) = frame(offset) ?: break
            packets += readPacket(bytes[offset].toInt() and 255, PacketReader(bytes, start, end))
            offset = end
        }
        System.arraycopy(bytes, offset, bytes, 0, count - offset)
        count -= offset
        // A single large packet must not keep its memory for ever.
        if (count == 0 && bytes.size > 65_536) bytes = ByteArray(1_024)
        return packets
    }

    private fun append(input: ByteArray, length: Int) {
        if (count + length > bytes.size) bytes = bytes.copyOf(maxOf(bytes.size * 2, count + length))
        System.arraycopy(input, 0, bytes, count, length)
        count += length
    }

    /** Returns the body's range of the packet at `offset`; null while the packet is incomplete. */
    private fun frame(offset: Int): Pair<Int, Int>? {
        var length = 0
        for (index in 1..4) {
            if (offset + index >= count) return null
            val byte = bytes[offset + index].toInt() and 255
            length += (byte and 127) shl (7 * (index - 1))
            if (length > maximumPacketSize) throw PacketException("a packet is larger than $maximumPacketSize bytes")
            if (byte < 128) {
                val start = offset + index + 1
                return if (start + length <= count) start to start + length else null
            }
        }
        throw PacketException("a packet length is too long")
    }
}
