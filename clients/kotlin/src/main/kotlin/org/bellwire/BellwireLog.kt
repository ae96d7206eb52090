package org.bellwire

/** The weight of a line of the log. */
public enum class LogLevel {
    /** A step of a connection or of a request. */
    DEBUG,

    /** A connection begins or ends, or the token provider fails; the client goes on by itself. */
    INFO,

    /** A fault of the SDK, or of the app's own code that the SDK calls. */
    WARNING,
}

/**
 * Takes the lines of a client's log. No line has a token or the content of a message, and a throwable comes without its
 * message. The client calls the log on its own threads, so `write` returns soon.
 */
public fun interface BellwireLog {
    public fun write(level: LogLevel, text: String, failure: Throwable?)
}

/** The causes of a throwable that the log shows. */
private const val CAUSES_SHOWN = 8

/** The log of a client. Without a log of the app, warnings go to the standard error stream. */
internal class ClientLog(private val log: BellwireLog?) {
    fun debug(text: () -> String) {
        if (log != null) write(LogLevel.DEBUG, text(), null)
    }

    fun info(text: String) = write(LogLevel.INFO, text, null)

    fun warning(text: String, failure: Throwable? = null) =
        write(LogLevel.WARNING, text, failure?.let { withoutMessage(it) })

    private fun write(level: LogLevel, text: String, failure: Throwable?) {
        val own = log
        if (own != null) {
            // A log that throws must not stop the client.
            runCatching { own.write(level, text, failure) }
        } else if (level == LogLevel.WARNING) {
            System.err.println("bellwire: $text")
            failure?.printStackTrace()
        }
    }

    /** Returns a throwable with the same stack and causes. The text of an exception may quote a message. */
    private fun withoutMessage(failure: Throwable, depth: Int = 1): Throwable {
        val cause = failure.cause?.takeIf { depth < CAUSES_SHOWN }?.let { withoutMessage(it, depth + 1) }
        return Throwable(failure.javaClass.name, cause).apply { stackTrace = failure.stackTrace }
    }
}
