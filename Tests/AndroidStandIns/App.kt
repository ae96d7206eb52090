package android.app

import android.content.Context
import android.content.Intent
import android.media.AudioAttributes
import android.net.Uri
import android.os.Bundle

/* Stand-ins for the interfaces of Android that clients/kotlin/android uses, with the values that the tests read. */

open class Activity : Context() {
    var intent = Intent()

    open fun onCreate(savedInstanceState: Bundle?) = Unit
    open fun onNewIntent(intent: Intent) = Unit
    open fun onDestroy() = Unit
    fun finish() = Unit
}

open class Application : Context() {
    open fun onCreate() = Unit
}

class Notification {
    var flags = 0
    var channel = ""
    var title = ""
    var text = ""
    var timeoutAfter = 0L
    var accept: PendingIntent? = null
    var decline: PendingIntent? = null

    companion object {
        const val FLAG_INSISTENT = 4
    }
}

class NotificationChannel(val id: String, val name: CharSequence, val importance: Int) {
    var sound: Uri? = null

    fun setSound(sound: Uri?, attributes: AudioAttributes?) {
        this.sound = sound
    }

    fun enableVibration(vibration: Boolean) = Unit
}

class NotificationManager {
    val channels = mutableListOf<NotificationChannel>()

    fun createNotificationChannels(made: List<NotificationChannel>) {
        channels += made
    }

    companion object {
        const val IMPORTANCE_DEFAULT = 3
        const val IMPORTANCE_HIGH = 4
    }
}

class PendingIntent(val intent: Intent) {
    var sent = 0

    fun send() {
        sent += 1
    }

    companion object {
        const val FLAG_IMMUTABLE = 1
        const val FLAG_UPDATE_CURRENT = 2

        @JvmStatic
        fun getActivity(context: Context, requestCode: Int, intent: Intent, flags: Int) = PendingIntent(intent)

        @JvmStatic
        fun getBroadcast(context: Context, requestCode: Int, intent: Intent, flags: Int) = PendingIntent(intent)
    }
}
