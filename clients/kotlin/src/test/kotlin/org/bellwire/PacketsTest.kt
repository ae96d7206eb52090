package org.bellwire

import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.InboundPacket
import org.bellwire.transport.PacketException
import org.bellwire.transport.PacketParser
import org.bellwire.transport.connectPacket
import org.bellwire.transport.publishPacket
import org.bellwire.transport.subscribePacket
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import kotlin.random.Random

/** MQTT 5 on the wire. */
class PacketsTest {
    private fun bytes(vararg values: Int) = ByteArray(values.size) { values[it].toByte() }

    private val connack = bytes(0x20, 11, 0, 0, 8, 0x21, 0, 10, 0x27, 0, 0, 1, 0)
    private val message = bytes(0x32, 9, 0, 1, 't'.code, 0, 7, 0, 'a'.code, 'b'.code, 'c'.code)

    @Test
    fun packetsAreReadFromPiecesOfAnySize() {
        val stream = connack + message + bytes(0xd0, 0) + publishPacket("t", ByteArray(70_000) { 1 }, 2, 5)
        for (size in listOf(1, 2, 3, 7, 1_000, stream.size)) {
            val parser = PacketParser(100_000)
            val packets = stream.toList().chunked(size).flatMap { parser.push(it.toByteArray()) }
            val names = packets.map { it.javaClass.simpleName }
            assertEquals("pieces of $size", listOf("Connack", "Publish", "Pingresp", "Publish"), names)
            val accepted = packets[0] as InboundPacket.Connack
            assertEquals(10, accepted.receiveMaximum)
            assertEquals(256L, accepted.maximumPacketSize)
            val received = packets[1] as InboundPacket.Publish
            assertEquals(7, received.packetID)
            assertArrayEquals("abc".toByteArray(), received.payload)
            assertEquals(70_000, (packets[3] as InboundPacket.Publish).payload.size)
        }
    }

    @Test
    fun whatIsNoPacketIsAnError() {
        val bad = listOf(
            // A packet longer than allowed: the parser does not wait for the whole packet.
            bytes(0x30, 0xff, 0xff, 0x7f), bytes(0x30, 0xff, 0xff, 0xff, 0xff, 1),
            // A body that ends too early, QoS 2, text that is not UTF-8, unknown properties, other packets.
            bytes(0x30, 2, 0, 9), bytes(0x34, 5, 0, 1, 't'.code, 0, 1), bytes(0x30, 3, 0, 1, 0xff),
            bytes(0x20, 5, 0, 0, 2, 0x7f, 0), bytes(0x20, 3, 0, 0, 9), bytes(0x10, 0), bytes(0x00, 0), bytes(0xf0, 0),
        )
        for (packet in bad) {
            assertThrows(packet.joinToString(), PacketException::class.java) { PacketParser(65_536).push(packet) }
        }
    }

    @Test
    fun noBytesAreTooMuch() {
        val random = Random(1)
        repeat(200_000) { round ->
            val packet = (if (round % 2 == 0) connack else message).copyOf()
            repeat(1 + random.nextInt(3)) { packet[random.nextInt(packet.size)] = random.nextInt().toByte() }
            try {
                PacketParser(1_000).push(packet)
            } catch (_: PacketException) {
                // Every other exception fails the test.
            }
        }
    }

    @Test
    fun aConnectHasTheWillAndTheToken() {
        val settings = ConnectionSettings("mqtt://a", "c", "u", "p", 90, "w", "{}", emptyList())
        val expected = bytes(
            0x10, 35, 0, 4, 'M'.code, 'Q'.code, 'T'.code, 'T'.code, 5, 0xce, 0, 90, 5, 0x27, 0, 0, 1, 0,
            0, 1, 'c'.code, 0, 0, 1, 'w'.code, 0, 2, '{'.code, '}'.code, 0, 1, 'u'.code, 0, 1, 'p'.code,
        )
        val packet = connectPacket(settings, 256)
        assertEquals(packet.size - 2, packet[1].toInt())
        assertArrayEquals(expected.drop(2).toByteArray(), packet.drop(2).toByteArray())
        assertThrows(PacketException::class.java) {
            connectPacket(ConnectionSettings("mqtt://a", "c", "u", "p".repeat(70_000), 90, "w", "{}", emptyList()), 256)
        }
    }

    @Test
    fun aSubscriptionHasTheQoSOfTheSettings() {
        for (qos in 0..1) {
            val expected = bytes(0x82, 7, 0, 1, 0, 0, 1, 't'.code, qos)
            assertArrayEquals(expected, subscribePacket(1, listOf("t"), qos))
        }
    }

    @Test
    fun aTopicOfAUserIsEncodedAsTheProtocolSays() {
        assertEquals("a%2Fb%2B%23%25%00%7F é", encodeUser("a/b+#%\u0000\u007f é"))
        assertTrue(isID(randomID()))
    }
}
