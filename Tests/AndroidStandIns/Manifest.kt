package android

object Manifest {
    object permission {
        const val POST_NOTIFICATIONS = "android.permission.POST_NOTIFICATIONS"
    }
}

object R {
    object drawable {
        const val sym_call_missed = 1
    }
}
