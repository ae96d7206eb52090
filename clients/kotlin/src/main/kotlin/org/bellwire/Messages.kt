package org.bellwire

import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import java.security.SecureRandom

/*
 * The messages on the wire (docs/protocol.md). All received data is checked here before use: messages of another form
 * are ignored, and unknown fields are dropped.
 */

/** A request with its id, in the form of the wire (section 2). */
internal class Request(val json: JsonObject) {
    val type: String = json.text("type") ?: ""
    val id: String = json.text("id") ?: ""
    val callID: String? = json.text("callID")

    operator fun get(field: String): JsonElement? = json[field]

    fun with(vararg fields: Pair<String, JsonElement>): Request = Request(JsonObject(json + fields))
}

/** A message that the service publishes to a device. */
internal sealed interface DownMessage

/** An event about a call for a device (section 5). */
internal class CallEvent(
    val event: String,
    val revision: Long,
    /** The creation time of this revision. */
    val time: Long,
    val call: CallSnapshot,
    /** With `call.invited`: milliseconds until the invitation expires. */
    val expiresIn: Long?,
    /** With the events that end a ringing: whether the user never responded on any device. */
    val missed: Boolean,
) : DownMessage {
    val callID: String get() = call.callID
}

/** An event of a later protocol version. The client can only ack such an event. */
internal class UnknownEvent(val callID: String, val revision: Long) : DownMessage

/** The response to a request. `body` is the whole message; the sender of the request checks the body. */
internal class Response(
    val id: String,
    val error: BellwireException? = null,
    val call: CallSnapshot? = null,
    /** With `call`: the creation time of the call's revision. */
    val time: Long = 0,
    val body: JsonObject = JsonObject(emptyMap()),
) : DownMessage

/** The service's answer to a device that came online (section 1). */
internal class Welcome(
    val session: String,
    val serverTime: Long,
    /** The interval between heartbeats, in seconds. */
    val heartbeatInterval: Long,
    val calls: List<CallSnapshot>,
    /** The number of live calls that were left out because the message would have been too large. */
    val omittedCalls: Long,
    /** The time until a silent device no longer counts as online, in seconds. */
    val presenceLease: Long?,
    val tokenExpiresAt: Long?,
    val iceServers: List<IceServer>?,
    /** The media sessions of the live calls in which this device is accepted, by call id. */
    val mediaSessions: Map<String, MediaSession>,
) : DownMessage

/**
 * JSON data of another user as text. Data waits in this form, since small numbers and lists need many times more memory
 * once they are read.
 */
internal class JsonText(val text: String) {
    constructor(json: JsonElement) : this(json.toString())

    fun read(): JsonElement = Json.parseToJsonElement(text)
}

/** An item of another device with a place in a stream of its sender. */
internal interface Placed {
    /** Set for signals, because each call numbers its signals separately. */
    val streamCallID: String?
    val from: String
    val fromDevice: String
    val stream: String?
    val seq: Long?
}

internal class Signal(
    val callID: String,
    override val from: String,
    override val fromDevice: String,
    override val seq: Long?,
    override val stream: String?,
    val data: JsonText,
) : DownMessage, Placed {
    override val streamCallID: String get() = callID
}

internal class Message(
    val messageID: String,
    val time: Long,
    override val from: String,
    override val fromDevice: String,
    override val seq: Long?,
    override val stream: String?,
    val data: JsonText,
) : DownMessage, Placed {
    override val streamCallID: String? get() = null
}

internal class ReceiptMessage(val messageID: String, val to: String, val state: String, val time: Long) : DownMessage

internal class ServiceError(val error: BellwireException) : DownMessage

internal object TokenWillExpire : DownMessage

/** The bounds of section 2, in bytes of UTF-8. */
internal object Limits {
    const val REQUEST = 65_536
    const val DATA = 32_768
}

private val changingTypes = setOf(
    "call.invite", "call.cancel", "call.accept", "call.reject", "call.add", "call.join", "call.quit", "call.end",
)

/** Whether a request may change its call. The next such request on the same call waits for the response (section 2). */
internal fun changesCall(type: String): Boolean = type in changingTypes

private val eventNames = setOf(
    "call.created", "call.invited", "call.userStateChanged", "call.cancelled", "call.timeout", "call.ended",
    "call.handledElsewhere",
)

// MARK: Topics and ids (section 1)

/** Percent-encodes exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#`, in upper-case hex. */
internal fun encodeUser(user: String): String = buildString {
    for (character in user) {
        if (character < ' ' || character == '\u007f' || character in "%+/#") {
            append('%').append("%02X".format(character.code))
        } else {
            append(character)
        }
    }
}

/**
 * Checks a user id, and returns the user id. Throws `badRequest` when no broker and no service would accept the user
 * id.
 */
internal fun checkUser(user: String): String {
    val isUser = user.isNotEmpty() && user.toByteArray().size <= 64 && isText(user)
    if (!isUser) throw BellwireException("badRequest", "a user id is 1 to 64 bytes of text")
    return user
}

/** Whether the text has no C1 control characters, no noncharacters and no lone surrogates. */
private fun isText(text: String): Boolean {
    var index = 0
    while (index < text.length) {
        val point = text.codePointAt(index)
        val isNoncharacter = point and 0xfffe == 0xfffe || point in 0xfdd0..0xfdef
        if (point in 0x80..0x9f || point in 0xd800..0xdfff || isNoncharacter) return false
        index += Character.charCount(point)
    }
    return true
}

private val devicePattern = Regex("[A-Za-z0-9._~-]{1,64}")
private val idPattern = Regex("[A-Za-z0-9_-]{1,64}")

internal fun isDevice(device: String): Boolean = devicePattern.matches(device)

internal fun isID(id: String): Boolean = idPattern.matches(id)

private val random = SecureRandom()

/** Returns 128 random bits in hex, an id that is unique without coordination. */
internal fun randomID(): String {
    val bytes = ByteArray(16).also(random::nextBytes)
    return bytes.joinToString("") { "%02x".format(it) }
}

// MARK: Reading

/** The largest integer that every JSON implementation reads exactly, 2^53 − 1. */
private const val LARGEST_INTEGER = 9_007_199_254_740_991

internal fun JsonObject.text(name: String): String? = this[name].text

internal val JsonElement?.text: String? get() = (this as? JsonPrimitive)?.takeIf { it.isString }?.content

internal fun JsonObject.integer(name: String): Long? = this[name].integer

internal val JsonElement?.integer: Long?
    get() {
        val primitive = (this as? JsonPrimitive)?.takeIf { !it.isString && it !is JsonNull } ?: return null
        val whole = primitive.content.toLongOrNull()
            ?: primitive.content.toDoubleOrNull()?.takeIf { it == Math.floor(it) && Math.abs(it) < 1e16 }?.toLong()
        return whole?.takeIf { it in -LARGEST_INTEGER..LARGEST_INTEGER }
    }

internal fun JsonObject.isTrue(name: String): Boolean =
    (this[name] as? JsonPrimitive)?.let { !it.isString && it.content == "true" } ?: false

private fun JsonObject.isFalse(name: String): Boolean =
    (this[name] as? JsonPrimitive)?.let { !it.isString && it.content == "false" } ?: false

private fun JsonObject.id(name: String): String? = text(name)?.takeIf(::isID)

private fun JsonObject.user(name: String): String? = this[name].user

private val JsonElement?.user: String? get() = text?.takeIf { it.isNotEmpty() && it.length <= 64 }

private fun <T : Any> readAll(value: JsonElement?, read: (JsonElement) -> T?): List<T> =
    (value as? JsonArray).orEmpty().mapNotNull(read)

private val memberStates = MemberState.values().associateBy { it.wire }
private val callStates = CallState.values().associateBy { it.wire }
private val callModes = CallMode.values().associateBy { it.wire }

private fun readMember(json: JsonElement): Member? {
    if (json !is JsonObject) return null
    return Member(
        userID = json.user("userID") ?: return null,
        state = memberStates[json.text("state")] ?: return null,
        updatedAt = json.integer("updatedAt") ?: return null,
        name = json.text("name"),
        avatarURL = json.text("avatarURL"),
        device = json.text("device"),
        invitedBy = json.text("invitedBy"),
        expiresAt = json.integer("expiresAt"),
        reason = json.text("reason"),
        extendedData = json.text("extendedData"),
    )
}

/** Null when `json` is not a call object of this version. */
internal fun readCall(json: JsonElement?): CallSnapshot? {
    if (json !is JsonObject) return null
    val listed = json["members"] as? JsonArray ?: return null
    val members = listed.mapNotNull(::readMember)
    if (members.size != listed.size) return null
    return CallSnapshot(
        callID = json.id("callID") ?: return null,
        revision = json.integer("revision") ?: return null,
        mode = callModes[json.text("mode")] ?: return null,
        state = callStates[json.text("state")] ?: return null,
        inviter = json.user("inviter") ?: return null,
        createdAt = json.integer("createdAt") ?: return null,
        timeout = json.integer("timeout") ?: return null,
        members = members,
        media = json.text("media"),
        acceptedAt = json.integer("acceptedAt"),
        endedAt = json.integer("endedAt"),
        endReason = json.text("endReason"),
        endedBy = json.text("endedBy"),
        extendedData = json.text("extendedData"),
    )
}

internal fun readError(json: JsonElement?): BellwireException? {
    if (json !is JsonObject) return null
    return BellwireException(
        code = json.text("code") ?: return null,
        message = json.text("message") ?: "",
        state = json.text("state"),
        callID = json.text("callID"),
        retryAfter = json.integer("retryAfter"),
        session = json.text("session"),
        reason = json.text("reason"),
        newerSession = json.text("newerSession"),
    )
}

internal fun readUserErrors(value: JsonElement?): List<UserError> = readAll(value) { json ->
    (json as? JsonObject)?.let { UserError(it.user("userID") ?: return@let null, it.text("code") ?: return@let null) }
}

internal fun readUsers(value: JsonElement?): List<String> = readAll(value) { it.user }

internal fun readCalls(value: JsonElement?): List<CallSnapshot> = readAll(value, ::readCall)

internal fun readObjects(value: JsonElement?): List<JsonObject> = readAll(value) { it as? JsonObject }

internal fun readProfile(json: JsonObject): UserProfile? = UserProfile(
    userID = json.text("userID") ?: return null,
    online = json.isTrue("online"),
    name = json.text("name"),
    avatarURL = json.text("avatarURL"),
    extendedData = json.text("extendedData"),
)

internal fun readMediaSession(json: JsonElement?): MediaSession? {
    if (json !is JsonObject) return null
    fun some(name: String) = json.text(name)?.takeIf { it.isNotEmpty() }
    return MediaSession(
        server = some("server") ?: return null,
        type = some("type") ?: return null,
        url = some("url") ?: return null,
        room = some("room") ?: return null,
        token = some("token") ?: return null,
        expiresAt = json.integer("expiresAt") ?: return null,
    )
}

private fun readIceServer(json: JsonElement): IceServer? {
    if (json !is JsonObject) return null
    val urls = json.text("urls")?.let(::listOf) ?: readAll(json["urls"]) { it.text }
    return if (urls.isEmpty()) null else IceServer(urls, json.text("username"), json.text("credential"))
}

private fun readEvent(json: JsonObject): DownMessage? {
    val revision = json.integer("revision")
    val time = json.integer("time")
    val name = json.text("event")
    val call = readCall(json["call"])
    if (name == null || name !in eventNames || revision == null || time == null || call == null) {
        val callID = json.id("callID")
        return if (callID != null && revision != null && revision >= 0) UnknownEvent(callID, revision) else null
    }
    return CallEvent(name, revision, time, call, json.integer("expiresIn"), json.isTrue("missed"))
}

private fun readResponse(json: JsonObject): Response? {
    val id = json.id("id") ?: return null
    if (json.isTrue("ok")) {
        val call = readCall(json["call"])
        val time = json.integer("time")
        return if (call != null && time != null) Response(id, call = call, time = time, body = json) else Response(id, body = json)
    }
    val error = readError(json["error"])
    return if (json.isFalse("ok") && error != null) Response(id, error = error, body = json) else null
}

private fun readWelcome(json: JsonObject): Welcome? = Welcome(
    session = json.text("session") ?: return null,
    serverTime = json.integer("serverTime") ?: return null,
    heartbeatInterval = json.integer("heartbeatInterval") ?: return null,
    calls = readCalls(json["calls"]),
    omittedCalls = maxOf(0, json.integer("omittedCalls") ?: 0),
    presenceLease = json.integer("presenceLease"),
    tokenExpiresAt = json.integer("tokenExpiresAt"),
    iceServers = (json["iceServers"] as? JsonArray)?.let { readAll(it, ::readIceServer) },
    mediaSessions = readObjects(json["mediaSessions"]).mapNotNull { each ->
        val session = readMediaSession(each)
        each.id("callID")?.let { callID -> session?.let { callID to it } }
    }.toMap(),
)

private fun readReceipt(json: JsonObject): ReceiptMessage? = ReceiptMessage(
    messageID = json.id("messageID") ?: return null,
    to = json.user("to") ?: return null,
    state = json.text("state")?.takeIf { it == "delivered" || it == "expired" } ?: return null,
    time = json.integer("time") ?: return null,
)

/** The fields that signals and peer messages share. Null when a required field is missing. */
private fun <T> readPeer(json: JsonObject, make: (from: String, fromDevice: String, data: JsonText) -> T): T? {
    val from = json.user("from") ?: return null
    val fromDevice = json.text("fromDevice")?.takeIf(::isDevice) ?: return null
    return make(from, fromDevice, JsonText(json["data"] ?: return null))
}

private fun readSignal(json: JsonObject): Signal? {
    val callID = json.id("callID") ?: return null
    return readPeer(json) { from, device, data -> Signal(callID, from, device, json.integer("seq"), json.text("stream"), data) }
}

private fun readMessage(json: JsonObject): Message? {
    val messageID = json.id("messageID") ?: return null
    val time = json.integer("time") ?: return null
    return readPeer(json) { from, device, data ->
        Message(messageID, time, from, device, json.integer("seq"), json.text("stream"), data)
    }
}

/** Reads a message of the service; null for a message that this version does not know. */
internal fun readDown(payload: String): DownMessage? {
    // A text that is no JSON makes the parser throw exceptions of several kinds.
    val json = runCatching { Json.parseToJsonElement(payload) }.getOrNull() as? JsonObject ?: return null
    return when (json.text("type")) {
        "response" -> readResponse(json)
        "event" -> readEvent(json)
        "welcome" -> readWelcome(json)
        "signal" -> readSignal(json)
        "message" -> readMessage(json)
        "receipt" -> readReceipt(json)
        "error" -> readError(json["error"])?.let(::ServiceError)
        "tokenWillExpire" -> TokenWillExpire
        else -> null
    }
}

// MARK: Writing

/** Makes a JSON object; fields without a value are left out. */
internal fun jsonOf(vararg fields: Pair<String, Any?>): JsonObject = buildJsonObject {
    for ((name, value) in fields) {
        when (value) {
            null -> Unit
            is JsonElement -> put(name, value)
            is String -> put(name, JsonPrimitive(value))
            is Number -> put(name, JsonPrimitive(value))
            is Boolean -> put(name, JsonPrimitive(value))
            is List<*> -> put(name, JsonArray(value.map { JsonPrimitive(it as String) }))
            else -> throw IllegalArgumentException("no JSON form of $name")
        }
    }
}

/** The deepest nesting of a payload (section 2). */
private const val DEEPEST = 64

/** Throws `badRequest` when the JSON is nested deeper than the service reads. */
internal fun checkDepth(json: JsonElement) {
    var level = listOf(json)
    for (depth in 0..DEEPEST) {
        level = level.flatMap { if (it is JsonObject) it.values else it as? JsonArray ?: emptyList() }
        if (level.isEmpty()) return
    }
    throw BellwireException("badRequest", "JSON is nested at most $DEEPEST levels deep")
}
