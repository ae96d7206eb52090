package org.bellwire

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import org.bellwire.machine.Action
import org.bellwire.machine.ClientMachine
import org.bellwire.machine.MachineConfiguration
import org.bellwire.machine.Told
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.junit.runners.Parameterized
import java.io.File

private val folder = File(System.getProperty("bellwire.cases", "../../Tests/ClientCases"))

private fun read(name: String): JsonElement = Json.parseToJsonElement(File(folder, name).readText())

private val definitions = read("definitions.json").jsonObject

/** The machine against the cases that the Swift and the web SDK share (Tests/ClientCases/README.md). */
@RunWith(Parameterized::class)
class ClientCasesTest(@Suppress("unused") private val name: String, private val case: JsonObject) {
    @Test
    fun theMachineDoesWhatTheCaseExpects() {
        val device = CaseDevice(case)
        for ((index, json) in case.getValue("steps").jsonArray.withIndex()) {
            val step = expand(json).jsonObject
            val done = device.perform(step).mapNotNull { (at, action) -> written(action)?.let { JsonObject(it + jsonOf("at" to at)) } }
            val expected = step["expect"]?.jsonArray?.map { JsonObject(jsonOf("at" to 0L) + it.jsonObject) } ?: continue
            assertEquals("step ${index + 1}: $json", expected.toSet(), done.toSet())
            assertEquals("step ${index + 1}: $json", expected, done)
        }
    }

    companion object {
        @JvmStatic
        @Parameterized.Parameters(name = "{0}")
        fun cases(): List<Array<Any>> {
            val files = folder.list().orEmpty().filter { it.endsWith(".json") && it != "definitions.json" }.sorted()
            return files.flatMap { file ->
                read(file).jsonArray.map { arrayOf("$file: ${it.jsonObject.text("name")}", it.jsonObject) }
            }
        }
    }
}

/** Replaces `$use` by the named value. */
private fun expand(json: JsonElement): JsonElement = when (json) {
    is JsonArray -> JsonArray(json.map(::expand))
    is JsonObject -> {
        val base = json.text("\$use")?.let { expand(definitions.getValue(it)).jsonObject } ?: JsonObject(emptyMap())
        JsonObject(base + json.filterKeys { it != "\$use" }.mapValues { expand(it.value) })
    }
    else -> json
}

/** Returns an action in the form of the cases; null for actions that only this SDK has. */
private fun written(action: Action): JsonObject? = when (action) {
    is Action.Publish -> jsonOf("publish" to action.message)
    is Action.PublishPresence -> jsonOf("presence" to action.message)
    is Action.Succeed -> jsonOf("succeed" to action.id)
    is Action.Fail -> jsonOf("fail" to action.id, "code" to action.error.code)
    is Action.Refuse -> jsonOf("refuse" to action.callID)
    is Action.RenewSession -> jsonOf("renewSession" to true)
    is Action.EndTakenOver -> jsonOf("endTakenOver" to true)
    is Action.RenewToken -> jsonOf("renewToken" to true)
    is Action.Deliver -> when (val told = action.told) {
        is Told.Online -> jsonOf("online" to true)
        is Told.Offline -> jsonOf("offline" to told.reason)
        is Told.Event -> jsonOf("event" to told.event.event, "callID" to told.event.callID, "revision" to told.event.revision)
        is Told.Snapshot -> jsonOf("snapshot" to told.call.callID, "revision" to told.call.revision)
        is Told.Gone -> jsonOf("gone" to told.call.callID)
        is Told.InvitationExpired -> jsonOf("expired" to told.call.callID)
        is Told.OfSignal -> jsonOf("signal" to told.signal.data.read())
        is Told.OfMessage -> jsonOf("message" to told.message.messageID)
        is Told.OfReceipt -> jsonOf("receipt" to told.receipt.messageID, "state" to told.receipt.state)
        is Told.Error -> jsonOf("error" to told.error.code)
        is Told.OfWelcome -> null
    }
}

/** The machine in virtual time. */
private class CaseDevice(case: JsonObject) {
    private var now = 1_000_000L
    private val machine: ClientMachine

    init {
        val given = case["configuration"]?.jsonObject ?: JsonObject(emptyMap())
        val known = setOf(
            "requestTimeout", "presenceRenewal", "ringingMargin", "queuedPerCall", "requests", "knownCalls", "renewsTokens",
            "signalStream",
        )
        assertTrue("settings of ${given.keys}", known.containsAll(given.keys))
        val defaults = MachineConfiguration()
        val configuration = MachineConfiguration(
            requestTimeout = given.integer("requestTimeout") ?: defaults.requestTimeout,
            presenceRenewal = given.integer("presenceRenewal") ?: defaults.presenceRenewal,
            ringingMargin = given.integer("ringingMargin") ?: defaults.ringingMargin,
            queuedPerCall = given.integer("queuedPerCall")?.toInt() ?: defaults.queuedPerCall,
            requests = given.integer("requests")?.toInt() ?: defaults.requests,
            knownCalls = given.integer("knownCalls")?.toInt() ?: defaults.knownCalls,
            renewsTokens = given.isTrue("renewsTokens"),
            signalStream = given.text("signalStream"),
        )
        machine = ClientMachine(case.text("user")!!, "phone", configuration)
    }

    /** Performs a step. Returns the machine's actions with the milliseconds since the begin of the step. */
    fun perform(step: JsonObject): List<Pair<Long, Action>> {
        fun at(actions: List<Action>) = actions.map { 0L to it }
        val (name, value) = step.entries.first { it.key != "expect" && it.key != "ordered" }
        return when (name) {
            "connected" -> at(machine.connected(value.jsonPrimitive.content))
            "subscribed" -> at(machine.subscribed(now))
            "disconnected" -> at(machine.disconnected(value.jsonPrimitive.content))
            "renewing" -> at(emptyList<Action>().also { machine.renewing() })
            "loggedOut" -> at(machine.loggedOut())
            "send" -> at(machine.send(Request(value.jsonObject), now, step.isTrue("ordered")))
            "signal" -> at(machine.signal(JsonObject(jsonOf("type" to "call.signal") + value.jsonObject), now))
            "pass" -> pass(value.jsonPrimitive.long)
            "receive" -> readDown(value.toString())?.let { at(machine.received(it, now)) } ?: emptyList()
            else -> throw AssertionError("what is $name?")
        }
    }

    private fun pass(milliseconds: Long): List<Pair<Long, Action>> {
        val began = now
        val end = now + milliseconds
        val done = mutableListOf<Pair<Long, Action>>()
        while (true) {
            val due = machine.nextDeadline?.takeIf { it <= end } ?: break
            now = maxOf(now, due)
            machine.timerFired(now).mapTo(done) { now - began to it }
            assertTrue("no deadline is left", (machine.nextDeadline ?: Long.MAX_VALUE) > now)
        }
        now = end
        return done
    }
}
