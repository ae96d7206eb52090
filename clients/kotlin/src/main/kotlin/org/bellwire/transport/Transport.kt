package org.bellwire.transport

/**
 * The settings of a connection to the broker.
 *
 * @property url The broker's address, such as `mqtts://host:port`.
 * @property password The token.
 * @property keepAlive The keep-alive in seconds. The broker may consider a connection lost after 1.5 times this period
 *   of silence.
 * @property willTopic The topic of the message that the broker publishes when the connection breaks.
 * @property subscriptions The topics to subscribe to.
 * @property qos The QoS of the subscriptions and of published messages, 0 or 1. The will has QoS 1.
 */
public class ConnectionSettings(
    public val url: String,
    public val clientID: String,
    public val username: String,
    public val password: String?,
    public val keepAlive: Int,
    public val willTopic: String,
    public val willPayload: String,
    public val subscriptions: List<String>,
    public val qos: Int = 0,
)

/**
 * The reason why a connection ended.
 *
 * @property message A text for people.
 * @property isRefused Whether the broker refused CONNECT or SUBSCRIBE, so that another attempt with the same token is
 *   useless.
 * @property isTakenOver Whether the broker reported that another client has connected under this device's id (MQTT 5,
 *   3.14.2.1, reason 0x8E).
 * @property isDropped Whether the broker had accepted the connection and then closed the connection without a reason,
 *   as opposed to silence and to an end by this client. Without this the SDK cannot detect another client at brokers
 *   that do not report another client.
 */
public class ConnectionFailure(
    public val message: String,
    public val isRefused: Boolean = false,
    public val isTakenOver: Boolean = false,
    public val isDropped: Boolean = false,
)

/** The functions that a transport calls, on any thread. No call follows `closed` or the connection's own `close`. */
public interface ConnectionHandlers {
    /** The broker accepted the connection. */
    public fun accepted()

    /** The broker has granted all subscriptions. */
    public fun subscribed()

    /**
     * A message came on a subscribed topic. The transport drops retained messages, because the service retains no
     * messages. Waits while more than 1 MiB of messages are not handled; the broker then waits too. Never called from
     * within a function of `Connection`.
     */
    public fun message(payload: String)

    /** The connection is lost, or the attempt has failed. Called once. */
    public fun closed(failure: ConnectionFailure)
}

/** A connection to the broker. The connection never reconnects by itself. All functions return at once, or soon. */
public interface Connection {
    /** The number of bytes that wait to be sent. */
    public val backlog: Int

    /**
     * Publishes with the QoS of the settings or with QoS 0, never retained. `expiry` in seconds. Returns false when the
     * message is larger than the broker accepts; the message then was not sent.
     */
    public fun publish(topic: String, payload: String, expiry: Int? = null): Boolean

    /** Asks the broker for a sign of life. Without an answer within a few seconds the transport calls `closed`. */
    public fun ask()

    /** Ends the connection normally; the broker drops the will. */
    public fun close()
}

/**
 * Makes connections: MQTT 5, clean start, no session expiry. The SDK's own transport is `MqttTransport`; an app may use
 * another MQTT client instead.
 */
public fun interface Transport {
    /**
     * Begins a connection and returns at once. Throws `IllegalArgumentException` when the address is not valid.
     */
    public fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection
}
