/** Stand-ins for the parts of HiveMQ's MQTT client 1.3 that Examples/kotlin-hivemq uses. */
@file:Suppress("UNUSED_PARAMETER", "RedundantSuppression")

package com.hivemq.client.mqtt

import java.util.Optional
import java.util.concurrent.CompletableFuture
import java.util.function.Consumer

enum class MqttGlobalPublishFilter { ALL }

enum class MqttQos { AT_MOST_ONCE, AT_LEAST_ONCE }

enum class MqttDisconnectSource { USER, CLIENT, SERVER }

interface MqttClientDisconnectedContext {
    val source: MqttDisconnectSource
    val cause: Throwable
}

fun interface MqttClientDisconnectedListener {
    fun onDisconnected(context: MqttClientDisconnectedContext)
}

class ReasonCode(val code: Int)

class ReasonedMessage(val reasonCode: ReasonCode)

class SubAck

class ConnectionClosedException : Exception()

abstract class Mqtt5ConnAckException : Exception() {
    abstract val mqttMessage: ReasonedMessage
}

abstract class Mqtt5SubAckException : Exception()

abstract class Mqtt5DisconnectException : Exception() {
    abstract val mqttMessage: ReasonedMessage
}

interface Mqtt5Publish {
    val isRetain: Boolean
    val payloadAsBytes: ByteArray
}

interface Mqtt5PublishResult

interface Mqtt5Subscription {
    companion object {
        fun builder(): Builder = throw UnsupportedOperationException()
    }

    interface Builder {
        fun topicFilter(filter: String): Builder
        fun qos(qos: MqttQos): Builder
        fun build(): Mqtt5Subscription
    }
}

interface Mqtt5Subscribe {
    companion object {
        fun builder(): Builder = throw UnsupportedOperationException()
    }

    interface Builder {
        fun addSubscriptions(subscriptions: Collection<Mqtt5Subscription>): Builder
        fun build(): Mqtt5Subscribe
    }
}

interface SimpleAuthBuilder {
    fun username(name: String): SimpleAuthBuilder
    fun password(password: ByteArray): SimpleAuthBuilder
    fun applySimpleAuth(): Mqtt5ConnectBuilder
}

interface WillPublishBuilder {
    fun topic(topic: String): WillPublishBuilder
    fun payload(payload: ByteArray): WillPublishBuilder
    fun qos(qos: MqttQos): WillPublishBuilder
    fun applyWillPublish(): Mqtt5ConnectBuilder
}

interface Mqtt5ConnectBuilder {
    fun cleanStart(isClean: Boolean): Mqtt5ConnectBuilder
    fun sessionExpiryInterval(seconds: Long): Mqtt5ConnectBuilder
    fun keepAlive(seconds: Int): Mqtt5ConnectBuilder
    fun simpleAuth(): SimpleAuthBuilder
    fun willPublish(): WillPublishBuilder
    fun send(): CompletableFuture<ReasonedMessage>
}

interface Mqtt5PublishBuilder {
    fun topic(topic: String): Mqtt5PublishBuilder
    fun payload(payload: ByteArray): Mqtt5PublishBuilder
    fun qos(qos: MqttQos): Mqtt5PublishBuilder
    fun messageExpiryInterval(seconds: Long): Mqtt5PublishBuilder
    fun send(): CompletableFuture<Mqtt5PublishResult>
}

interface Mqtt5ClientConnectionConfig {
    val sendMaximumPacketSize: Int
}

interface Mqtt5ClientConfig {
    val connectionConfig: Optional<Mqtt5ClientConnectionConfig>
}

interface Mqtt5AsyncClient {
    val config: Mqtt5ClientConfig
    fun publishes(filter: MqttGlobalPublishFilter, callback: Consumer<Mqtt5Publish>)
    fun connectWith(): Mqtt5ConnectBuilder
    fun subscribe(subscribe: Mqtt5Subscribe): CompletableFuture<SubAck>
    fun publishWith(): Mqtt5PublishBuilder
    fun disconnect(): CompletableFuture<Void>
}

interface Mqtt5ClientBuilder {
    fun identifier(identifier: String): Mqtt5ClientBuilder
    fun serverHost(host: String): Mqtt5ClientBuilder
    fun serverPort(port: Int): Mqtt5ClientBuilder
    fun addDisconnectedListener(listener: MqttClientDisconnectedListener): Mqtt5ClientBuilder
    fun sslWithDefaultConfig(): Mqtt5ClientBuilder
    fun buildAsync(): Mqtt5AsyncClient
}

interface Mqtt5Client {
    companion object {
        fun builder(): Mqtt5ClientBuilder = throw UnsupportedOperationException()
    }
}
