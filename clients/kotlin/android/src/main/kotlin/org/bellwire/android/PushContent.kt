package org.bellwire.android

import kotlinx.serialization.json.*

/** The content of a push: the member `bellwire` of FCM's `data` (docs/protocol.md, section 7). */
internal class PushContent private constructor(private val json: JsonObject) {
    val kind: String = text("kind")
    val callID: String = text("callID")
    val revision: Long = number("revision") ?: 0
    val title: String = text("title")
    val body: String = text("body")

    /** The caller's name, else the user id. */
    val caller: String = text("name").ifEmpty { text("inviter") }

    /** The address of the ring check; empty when the operator has none. */
    val check: String = text("check")

    /** The milliseconds that the phone rings; 60 s, the timeout of an invitation that names none, by default. */
    val expiresIn: Long = number("expiresIn") ?: 60_000

    private fun text(name: String): String = (json[name] as? JsonPrimitive)?.contentOrNull.orEmpty()
    private fun number(name: String): Long? = (json[name] as? JsonPrimitive)?.longOrNull
    internal companion object {
        /** Null when the text is no JSON object. */
        fun read(text: String): PushContent? =
            (runCatching { Json.parseToJsonElement(text) }.getOrNull() as? JsonObject)?.let(::PushContent)
    }
}

/** The last news of a call: the kind of the push, the call's revision and the ring check. Stored as text. */
internal data class Heard(val kind: String, val revision: Long, val check: String) {
    override fun toString(): String = "$revision $kind $check"

    internal companion object {
        fun read(text: String?): Heard? {
            val (revision, kind, check) = text?.split(" ", limit = 3)?.takeIf { it.size == 3 } ?: return null
            return Heard(kind, revision.toLongOrNull() ?: return null, check)
        }
    }
}

/**
 * Whether a push says something new of its call. Pushes come late, twice and in any order: the `stop` of an earlier
 * invitation must not silence the ring of a later one, nor may a ring that is late begin again what has ended.
 */
internal fun isNews(push: Heard, last: Heard?): Boolean =
    last == null || push.revision > last.revision ||
        (push.revision == last.revision && last.kind == "ring" && push.kind != "ring")
