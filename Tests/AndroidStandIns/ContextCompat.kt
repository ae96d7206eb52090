package androidx.core.content

import android.content.Context

class ContextCompat {
    companion object {
        var mayNotify = true

        @JvmStatic
        fun checkSelfPermission(context: Context, permission: String): Int = if (mayNotify) 0 else -1
    }
}
