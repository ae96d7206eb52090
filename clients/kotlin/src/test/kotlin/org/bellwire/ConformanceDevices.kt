package org.bellwire

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonObject
import org.bellwire.machine.Told
import org.bellwire.transport.Connection
import org.bellwire.transport.ConnectionFailure
import org.bellwire.transport.ConnectionHandlers
import org.bellwire.transport.ConnectionSettings
import org.bellwire.transport.MqttTransport
import org.bellwire.transport.Transport
import kotlin.system.exitProcess

/*
 * Devices of the conformance suite that are the Kotlin SDK: its machine, driver and MQTT. All devices are in a single
 * process. Orders and reports are lines of JSON, which conformance/client/machines.py writes and reads.
 */

fun main() {
    val devices = mutableMapOf<Long, ConformanceDevice>()
    for (line in generateSequence(::readLine)) {
        val order = Json.parseToJsonElement(line).jsonObject
        val number = order.integer("number")!!
        val text = order.text("text")
        when (order.text("order")) {
            "begin" -> devices[number] = ConformanceDevice(number, order.getValue("settings").jsonObject)
            "request" -> devices.getValue(number).request(text!!)
            "signal" -> devices.getValue(number).signal(text!!)
            "find" -> devices.getValue(number).find()
            "end" -> devices.getValue(number).end()
            "sync" -> devices.getValue(number).sync(order.integer("token")!!)
            else -> report(jsonOf("device" to number, "raised" to "what is $line?"))
        }
    }
    exitProcess(0)
}

private fun report(line: JsonObject) = synchronized(System.out) { println(line) }

private class ConformanceDevice(private val number: Long, settings: JsonObject) : DriverHost {
    private val loop = ThreadLoop("device-$number")
    private val token = settings.text("token")
    private val driver = Driver(
        DriverSettings(
            urls = listOf(settings.text("url")!!),
            user = settings.text("user")!!,
            device = settings.text("device")!!,
            topicRoot = settings.text("topicRoot")!!,
            keepAlive = settings.integer("keepAlive")!!.toInt(),
            token = token?.let { { it } },
            transport = CountedTransport(),
            requestTimeout = 30_000,
            qos = settings.integer("qos")!!.toInt(),
        ),
        loop, this,
    )

    init {
        loop.post { driver.start() }
    }

    private fun tell(vararg fields: Pair<String, Any?>) = report(jsonOf("device" to number, *fields))

    fun request(text: String) {
        loop.post { driver.send(Request(Json.parseToJsonElement(text).jsonObject)) }
    }

    fun signal(text: String) {
        loop.post { driver.signal(Json.parseToJsonElement(text).jsonObject) }
    }

    fun find() {
        loop.post { driver.networkChanged() }
    }

    fun end() {
        loop.post {
            driver.stop()
            loop.end()
        }
    }

    /** Reports when all earlier orders are done; after the end of the device, its goodbye has left. */
    fun sync(token: Long) {
        val reported = { report(jsonOf("sync" to token)) }
        if (!loop.post(reported)) reported()
    }

    override fun told(told: Told) {
        when (told) {
            is Told.Event -> tell("told" to "event", "callID" to told.event.callID, "revision" to told.event.revision)
            is Told.OfMessage -> tell("told" to "message", "messageID" to told.message.messageID)
            is Told.OfSignal -> told.signal.let {
                val place = jsonOf(
                    "callID" to it.callID, "from" to it.from, "fromDevice" to it.fromDevice, "stream" to it.stream, "seq" to it.seq,
                )
                tell("told" to "signal", "signal" to place)
            }
            else -> Unit
        }
    }

    override fun succeeded(id: String, response: Response) = tell("outcome" to id)
    override fun failed(id: String, error: BellwireException) = tell("outcome" to id, "code" to error.code)
    override fun lost(failure: ConnectionFailure) = tell("closed" to failure.message, "refused" to failure.isRefused)
    override fun subscribed() = Unit
    override fun refused(callID: String) = tell("noRoom" to callID)
    override fun noToken(message: String) = Unit
    override fun turnEnded() = Unit

    /** Reports how many messages the SDK hands over: the reader of the wire then knows how many must come. */
    private inner class CountedTransport : Transport {
        private val transport = MqttTransport()

        override fun connect(settings: ConnectionSettings, handlers: ConnectionHandlers): Connection =
            Counted(transport.connect(settings, handlers))
    }

    private inner class Counted(private val connection: Connection) : Connection by connection {
        override fun publish(topic: String, payload: String, expiry: Int?): Boolean {
            val isSent = connection.publish(topic, payload, expiry)
            if (isSent) tell("handed" to 1L)
            return isSent
        }
    }
}
