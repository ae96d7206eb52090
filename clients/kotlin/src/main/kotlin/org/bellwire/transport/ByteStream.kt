package org.bellwire.transport

import java.io.IOException
import java.net.InetAddress
import java.net.InetSocketAddress
import java.net.Socket
import java.net.URI
import java.net.URISyntaxException
import javax.net.ssl.SSLContext
import javax.net.ssl.SSLSocket

/** A connection for bytes. `read` and `write` block; `close` ends both and may be called from another thread. */
internal interface ByteStream {
    /** Returns the number of bytes read, -1 at the end. */
    fun read(bytes: ByteArray): Int

    fun write(bytes: ByteArray)

    fun close()
}

/**
 * The address of a broker: `mqtt://`, `mqtts://`, `ws://` or `wss://` with a host, perhaps a port, and for WebSockets
 * perhaps a path. Throws `IllegalArgumentException` for another form.
 */
internal class BrokerAddress(text: String) {
    private val scheme: String
    private val host: String
    private val port: Int
    private val path: String
    private val isTLS: Boolean get() = scheme == "mqtts" || scheme == "wss"
    private val isWebSocket: Boolean get() = scheme == "ws" || scheme == "wss"

    init {
        val uri = try {
            URI(text.trim())
        } catch (exception: URISyntaxException) {
            throw IllegalArgumentException("url: ${exception.message}")
        }
        scheme = uri.scheme?.lowercase()?.takeIf { it in defaultPorts }
            ?: throw IllegalArgumentException("url begins with mqtt://, mqtts://, ws:// or wss://")
        if (uri.rawUserInfo != null) throw IllegalArgumentException("url has credentials; the token is a setting of its own")
        // `URI` reads no host with an underscore, as containers have.
        val (name, number) = authorityPattern.matchEntire(uri.rawAuthority.orEmpty())?.destructured
            ?: throw IllegalArgumentException("url names no host")
        host = name.removeSurrounding("[", "]")
        port = if (number.isEmpty()) defaultPorts.getValue(scheme) else number.toIntOrNull() ?: 0
        if (port !in 1..65_535) throw IllegalArgumentException("a port is a number from 1 to 65535")
        path = (uri.rawPath?.ifEmpty { null } ?: "/") + (uri.rawQuery?.let { "?$it" } ?: "")
        if (!isWebSocket && path != "/") throw IllegalArgumentException("url has a path, which only a WebSocket has")
    }

    /** The scheme, host and port, for people. */
    val name: String get() = "$scheme://$authority"

    private val authority: String get() = (if (':' in host) "[$host]" else host) + ":$port"

    /**
     * Connects, blocking. `opening` gets each stream before the stream may block, so that the caller can close the
     * stream, and returns whether the attempt was given up.
     */
    fun open(sslContext: SSLContext?, timeout: Int, opening: (ByteStream) -> Boolean): ByteStream {
        val socket = connect(timeout, opening)
        val plain = SocketStream(if (isTLS) secure(socket, sslContext) else socket, socket)
        if (opening(plain)) {
            plain.close()
            throw IOException("given up")
        }
        return if (isWebSocket) WebSocketStream(plain, authority, path).apply { shakeHands() } else plain
    }

    /** Tries the host's addresses in turn. */
    private fun connect(timeout: Int, opening: (ByteStream) -> Boolean): Socket {
        var failure = IOException("$host has no address")
        val addresses = InetAddress.getAllByName(host)
        for (address in addresses) {
            val socket = Socket()
            if (opening(SocketStream(socket, socket))) throw IOException("given up")
            try {
                socket.connect(InetSocketAddress(address, port), timeout / addresses.size)
                socket.tcpNoDelay = true
                return socket
            } catch (exception: IOException) {
                socket.close()
                failure = exception
            }
        }
        throw failure
    }

    private fun secure(socket: Socket, context: SSLContext?): SSLSocket {
        val factory = (context ?: SSLContext.getDefault()).socketFactory
        val secured = factory.createSocket(socket, host, port, true) as SSLSocket
        // Without this the JVM accepts a certificate of any host.
        secured.sslParameters = secured.sslParameters.apply { endpointIdentificationAlgorithm = "HTTPS" }
        secured.startHandshake()
        return secured
    }

    private companion object {
        val authorityPattern = Regex("""(\[[0-9A-Fa-f:.%]+]|[^:@\[\]]+)(?::(\d*))?""")
        val defaultPorts = mapOf("mqtt" to 1883, "mqtts" to 8883, "ws" to 80, "wss" to 443)
    }
}

/**
 * `raw`: the socket under `socket`, the same without TLS. Closing the raw socket never waits, while closing a TLS
 * socket waits for a blocked `write`.
 */
private class SocketStream(private val socket: Socket, private val raw: Socket) : ByteStream {
    private val input by lazy { socket.getInputStream() }
    private val output by lazy { socket.getOutputStream() }

    override fun read(bytes: ByteArray): Int = input.read(bytes)

    override fun write(bytes: ByteArray) {
        output.write(bytes)
        output.flush()
    }

    override fun close() {
        try {
            raw.close()
        } catch (_: IOException) {
            // The socket is closed all the same.
        }
    }
}
