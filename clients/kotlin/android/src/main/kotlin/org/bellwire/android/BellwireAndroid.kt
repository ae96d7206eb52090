package org.bellwire.android

import android.app.*
import android.content.Context
import android.media.*
import android.net.Uri
import android.os.SystemClock
import android.util.Log
import org.bellwire.*

/**
 * The app's settings for the notifications of calls. The app calls `configure` in `Application.onCreate`: Android
 * starts the app's process for a push, without any activity.
 */
public object BellwireAndroid {
    /**
     * @property callActivity The activity that shows a call. Its intents have the action `show` or `accept`, and the
     *   call id as the scheme-specific part of their data. The activity connects, and accepts where the action says so.
     * @property callIcon A drawable of the app.
     * @property declined Called when the user declines in a notification or by a headset: the app's client, where it is
     *   connected, rejects the call. Without a connection the ring check of the push declines.
     * @property hungUp Called when the user ends an answered or outgoing call by a headset, a car or a watch, and when
     *   the phone does not allow an outgoing call now.
     * @property ringtone The sound of a ringing call; the phone's ringtone when null. Android keeps the sound of the
     *   app's first start: later the user can change the sound in the phone's settings, and the app cannot.
     * @property usesTelecom Whether the phone's Telecom service is told of calls: then a car or a watch shows the call.
     */
    public class Settings(
        public val callActivity: Class<out Activity>,
        public val callIcon: Int,
        public val missedIcon: Int = callIcon,
        public val channelName: String = "Incoming calls",
        public val missedChannelName: String = "Missed calls",
        public val usesTelecom: Boolean = true,
        public val ringtone: Uri? = null,
        public val declined: (callID: String) -> Unit = {},
        public val hungUp: (callID: String) -> Unit = {},
    )

    /** For `BellwireClient.Configuration.clock`: a clock that goes on while the phone sleeps. */
    public val clock: () -> Long = { SystemClock.elapsedRealtime() }

    /** For `BellwireClient.Configuration.log`: Android's log, with the tag `bellwire`. */
    public val log: BellwireLog = BellwireLog { level, text, failure ->
        val priority = when (level) {
            LogLevel.DEBUG -> Log.DEBUG
            LogLevel.INFO -> Log.INFO
            LogLevel.WARNING -> Log.WARN
        }
        Log.println(priority, "bellwire", if (failure == null) text else "$text\n${Log.getStackTraceString(failure)}")
    }

    @Volatile
    internal var settings: Settings? = null
        private set

    /** Takes the settings, and makes the channels of the notifications. */
    public fun configure(context: Context, settings: Settings) {
        this.settings = settings
        val sound = AudioAttributes.Builder().setUsage(AudioAttributes.USAGE_NOTIFICATION_RINGTONE).build()
        val ringing = NotificationChannel(Ringing.RINGING_CHANNEL, settings.channelName, NotificationManager.IMPORTANCE_HIGH)
        ringing.setSound(settings.ringtone ?: RingtoneManager.getDefaultUri(RingtoneManager.TYPE_RINGTONE), sound)
        ringing.enableVibration(true)
        val missed = NotificationChannel(Ringing.MISSED_CHANNEL, settings.missedChannelName, NotificationManager.IMPORTANCE_DEFAULT)
        context.getSystemService(NotificationManager::class.java)?.createNotificationChannels(listOf(ringing, missed))
        if (settings.usesTelecom) Telecom.register(context)
    }
}
