package android.os

interface Parcelable

class Bundle {
    val values = mutableMapOf<String, Parcelable?>()

    fun putParcelable(name: String, value: Parcelable?) {
        values[name] = value
    }
}

class Build {
    object VERSION {
        @JvmField
        val SDK_INT = 34
    }

    object VERSION_CODES {
        const val TIRAMISU = 33
    }
}

object SystemClock {
    /** The milliseconds since the phone started, its sleep included. */
    var elapsed = 0L

    @JvmStatic
    fun elapsedRealtime(): Long = elapsed
}

class Looper private constructor() {
    companion object {
        private val main = Looper()

        @JvmStatic
        fun getMainLooper(): Looper = main
    }
}

class Handler(looper: Looper) {
    fun postDelayed(task: () -> Unit, milliseconds: Long): Boolean = delayed.add(milliseconds to task)

    companion object {
        /** The waiting actions, each with its milliseconds. */
        val delayed = mutableListOf<Pair<Long, () -> Unit>>()
    }
}
