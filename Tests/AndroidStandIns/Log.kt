package android.util

object Log {
    const val DEBUG = 3
    const val INFO = 4
    const val WARN = 5

    /** The lines of the log, each with its priority and tag. */
    val lines = mutableListOf<Triple<Int, String, String>>()

    @JvmStatic
    fun println(priority: Int, tag: String, text: String): Int {
        lines += Triple(priority, tag, text)
        return text.length
    }

    @JvmStatic
    fun getStackTraceString(failure: Throwable?): String = failure?.toString().orEmpty()
}
