/**
 * HiveMQ's client 1.3 as the SDK's MQTT client, for `mqtt://` and `mqtts://`: an outline without its imports, compiled
 * against stand-ins for HiveMQ's interface and not run (docs/kotlin.md, Another MQTT client).
 */
class HiveMqTransport : Transport {
    override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection =
        HiveMqConnection(settings, handlers).apply { begin() }
}

private class HiveMqConnection(private val settings: ConnectionSettings, private val handlers: ConnectionHandlers) : Connection {
    private val hasEnded = AtomicBoolean()
    private val unsent = AtomicInteger()
    private val timer = Executors.newSingleThreadScheduledExecutor()
    private val qos = if (settings.qos == 1) MqttQos.AT_LEAST_ONCE else MqttQos.AT_MOST_ONCE
    private val isReady = AtomicBoolean()
    private val isAsking = AtomicBoolean()
    private val client: Mqtt5AsyncClient = URI.create(settings.url).let { address ->
        val scheme = address.scheme?.lowercase()
        require(scheme == "mqtt" || scheme == "mqtts") { "neither mqtt:// nor mqtts://: ${settings.url}" }
        val host = requireNotNull(address.host) { "no host in ${settings.url}" }
        val port = if (address.port > 0) address.port else if (scheme == "mqtts") 8883 else 1883
        val builder = Mqtt5Client.builder().identifier(settings.clientID).serverHost(host).serverPort(port)
            .addDisconnectedListener { context -> end(context.cause, context.source != MqttDisconnectSource.USER) }
        (if (scheme == "mqtts") builder.sslWithDefaultConfig() else builder).buildAsync()
    }
    override val backlog: Int get() = unsent.get()

    fun begin() {
        // While the callback waits, the library queues messages, and at QoS 0 drops the oldest beyond Receive Maximum.
        client.publishes(MqttGlobalPublishFilter.ALL) { message ->
            if (!message.isRetain && !hasEnded.get()) handlers.message(String(message.payloadAsBytes))
        }
        client.connectWith().cleanStart(true).sessionExpiryInterval(0).keepAlive(settings.keepAlive)
            .simpleAuth().username(settings.username).password((settings.password ?: "").toByteArray()).applySimpleAuth()
            .willPublish().topic(settings.willTopic).payload(settings.willPayload.toByteArray())
            .qos(MqttQos.AT_LEAST_ONCE).applyWillPublish()
            .send()
            .thenCompose {
                // `close` may have come first, when there was nothing to disconnect yet.
                if (hasEnded.get()) throw CancellationException("closed") else handlers.accepted()
                subscribe()
            }
            .whenComplete { _, error ->
                isReady.set(error == null)
                if (error != null) end(error.cause ?: error, false) else if (!hasEnded.get()) handlers.subscribed()
                if (hasEnded.get()) client.disconnect()
            }
        limit("the broker does not answer", 10) { !isReady.get() }
    }

    private fun subscribe() = client.subscribe(
        Mqtt5Subscribe.builder()
            .addSubscriptions(settings.subscriptions.map { Mqtt5Subscription.builder().topicFilter(it).qos(qos).build() })
            .build(),
    )

    override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
        val bytes = payload.toByteArray()
        val most = client.config.connectionConfig.map { it.sendMaximumPacketSize }.orElse(Int.MAX_VALUE)
        if (bytes.size + topic.length + 32 > most) return false
        val message = client.publishWith().topic(topic).payload(bytes).qos(qos)
        unsent.addAndGet(bytes.size)
        (if (expiry == null) message else message.messageExpiryInterval(expiry.toLong())).send()
            .whenComplete { _, _ -> unsent.addAndGet(-bytes.size) }
        return true
    }

    /** The library has no call for a PINGREQ: the answer to another SUBSCRIBE is a sign of life as well. */
    override fun ask() {
        if (hasEnded.get() || !isAsking.compareAndSet(false, true)) return
        subscribe().whenComplete { _, _ -> isAsking.set(false) }
        limit("the broker no longer answers", 5) { isAsking.get() }
    }

    private fun limit(trouble: String, seconds: Long, isLate: () -> Boolean) {
        timer.schedule({ if (isLate()) end(IOException(trouble), false) }, seconds, TimeUnit.SECONDS)
    }

    override fun close() {
        if (hasEnded.compareAndSet(false, true)) release()
    }

    private fun end(cause: Throwable, isByBroker: Boolean) {
        if (!hasEnded.compareAndSet(false, true)) return
        val refusal = (cause as? Mqtt5ConnAckException)?.mqttMessage?.reasonCode?.code
        val isRefused = cause is Mqtt5SubAckException || refusal in setOf(0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C)
        val isTakenOver = (cause as? Mqtt5DisconnectException)?.mqttMessage?.reasonCode?.code == 0x8E
        val isDropped = isByBroker && cause is ConnectionClosedException
        handlers.closed(ConnectionFailure("$cause", isRefused, isTakenOver, isDropped))
        release()
    }

    private fun release() {
        timer.shutdownNow()
        client.disconnect()
    }
}
