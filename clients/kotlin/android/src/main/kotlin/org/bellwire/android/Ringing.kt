package org.bellwire.android

import android.Manifest
import android.app.*
import android.content.*
import android.content.pm.PackageManager
import android.net.Uri
import android.os.Build
import android.telecom.DisconnectCause
import androidx.core.app.*
import androidx.core.content.ContextCompat
import kotlinx.coroutines.flow.*
import kotlinx.serialization.json.*
import org.bellwire.*
import java.net.HttpURLConnection
import java.net.URL

/**
 * The notifications of calls. A call that the app's own `BellwireClient` tells of is shown and stopped by the same
 * functions as a push, so that a call rings once.
 */
public class Ringing(private val context: Context) {
    private val manager = NotificationManagerCompat.from(context)
    private val heard = context.getSharedPreferences("bellwire-pushes", Context.MODE_PRIVATE)

    /** Handles the content of a push. Blocks for at most some seconds, while the service is asked about the call. */
    public fun take(content: String) {
        val push = PushContent.read(content) ?: return
        if (push.kind == "test") return show("test", MISSED, missedNotification(push))
        if (push.kind != "ring" && push.kind != "stop" && push.kind != "missed") return
        val news = Heard(push.kind, push.revision, push.check)
        synchronized(lock) {
            if (!isNews(news, last(push.callID))) return
            remember(push.callID, news)
            if (push.kind != "ring") silence(push.callID)
            if (push.kind == "missed") show(push.callID, MISSED, missedNotification(push))
        }
        if (push.kind != "ring") return
        val rest = restOfRinging(push)
        synchronized(lock) {
            // A push that came while the service was asked counts.
            if (last(push.callID) != news) return
            if (rest <= 0) silence(push.callID) else ring(push.callID, push.caller, push.body, rest)
        }
    }

    /**
     * Rings for a call that the app's own client tells of (`incomingCalls`), and ends the ringing with the call or its
     * answer. Returns when the call is over for this device. When there is a conversation then
     * (`call.isInConversation`), the app calls `stop` at the conversation's end. A coroutine that is cancelled ends the
     * ringing.
     */
    public suspend fun follow(call: Call, text: String) {
        if (call.endReason != null) return
        try {
            if (!call.isHere) {
                ring(call.id, call.snapshot.member(call.inviter)?.name ?: call.inviter, text, call.snapshot.timeout * 1_000)
            }
            call.snapshots.combine(call.endReasons) { _, reason -> reason }.first { reason ->
                if (call.isHere) answered(call.id)
                reason != null
            }
        } finally {
            if (call.isInConversation) answered(call.id) else stop(call.id)
        }
    }

    /** Shows a ringing call, for `milliseconds`. */
    public fun ring(callID: String, caller: String, text: String, milliseconds: Long) {
        val settings = BellwireAndroid.settings ?: return
        val (accept, decline) = activity(callID, "accept") to decline(callID)
        val person = Person.Builder().setName(caller).setImportant(true).build()
        val notification = NotificationCompat.Builder(context, RINGING_CHANNEL)
            .setSmallIcon(settings.callIcon)
            .setContentText(text)
            .setCategory(NotificationCompat.CATEGORY_CALL)
            .setPriority(NotificationCompat.PRIORITY_MAX)
            .setOngoing(true)
            .setOnlyAlertOnce(true)
            // The notification ends by itself, whatever becomes of this process.
            .setTimeoutAfter(milliseconds)
            .setContentIntent(activity(callID, "show"))
            .setFullScreenIntent(activity(callID, "show"), true)
            .setStyle(NotificationCompat.CallStyle.forIncomingCall(person, decline, accept))
            .build()
        // The channel's sound is repeated until the notification ends.
        notification.flags = notification.flags or Notification.FLAG_INSISTENT
        val ring = Telecom.Ring(callID, caller, accept, decline) { show(callID, RINGING, notification) }
        if (!settings.usesTelecom || !Telecom.announce(context, callID, ring, milliseconds)) ring.show()
    }

    /**
     * Tells the phone's Telecom service of a call that this user makes to `callee`. `answered` follows when the first
     * invitee has answered, and `stop` when the call is over.
     */
    public fun calling(callID: String, callee: String) {
        if (BellwireAndroid.settings?.usesTelecom == true) Telecom.place(context, Telecom.Ring(callID, callee))
    }

    /** Ends the ringing of a call that the user has accepted here. `stop` follows when the call is over. */
    public fun answered(callID: String) {
        manager.cancel(callID, RINGING)
        Telecom.answered(callID)
    }

    /** Ends a call, as when the connection tells that the call was answered elsewhere, cancelled or hung up. */
    public fun stop(callID: String): Unit = stop(callID, DisconnectCause.REMOTE)
    internal fun stop(callID: String, cause: Int, ifRinging: Boolean = false) {
        manager.cancel(callID, RINGING)
        Telecom.ended(callID, cause, ifRinging)
    }

    /** Ends the ringing alone: a push may come after the user has accepted by the connection. */
    private fun silence(callID: String) = stop(callID, DisconnectCause.REMOTE, ifRinging = true)

    private fun missedNotification(push: PushContent): Notification =
        NotificationCompat.Builder(context, MISSED_CHANNEL)
            .setSmallIcon(BellwireAndroid.settings?.missedIcon ?: android.R.drawable.sym_call_missed)
            .setContentTitle(push.title.ifEmpty { push.caller })
            .setContentText(push.body)
            .setCategory(NotificationCompat.CATEGORY_MISSED_CALL)
            .setContentIntent(activity(push.callID, "show"))
            .setAutoCancel(true)
            .build()

    private fun show(callID: String, id: Int, notification: Notification) {
        val isAllowed = Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU ||
            ContextCompat.checkSelfPermission(context, Manifest.permission.POST_NOTIFICATIONS) == PackageManager.PERMISSION_GRANTED
        if (isAllowed) return manager.notify(callID, id, notification)
        BellwireAndroid.log.write(LogLevel.WARNING, "call $callID is not shown: the user has not allowed notifications", null)
    }

    /** The data makes the intents of two calls different. */
    private fun activity(callID: String, action: String): PendingIntent {
        val intent = BellwireAndroid.settings?.let { Intent(context, it.callActivity) } ?: Intent()
        intent.setAction(action).setData(Uri.fromParts("bellwire", callID, null))
        return PendingIntent.getActivity(context, 0, intent, PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT)
    }

    private fun decline(callID: String): PendingIntent {
        val intent = Intent(context, DeclineReceiver::class.java).setData(Uri.fromParts("bellwire", callID, null))
        return PendingIntent.getBroadcast(context, 0, intent, PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT)
    }

    /** Android ends the process between two pushes, so the last push of each call is stored. */
    internal fun last(callID: String): Heard? = Heard.read(heard.getString(callID, null))

    private fun remember(callID: String, news: Heard) {
        val edit = heard.edit()
        // Only pushes of the last minutes matter.
        if (heard.all.size >= CALLS_REMEMBERED) edit.clear()
        edit.putString(callID, news.toString()).apply()
    }

    /** Makes the ring check (docs/push.md). Returns the milliseconds that the phone is to ring; 0 when the call is over. */
    private fun restOfRinging(push: PushContent): Long {
        val state = ask(push.check, "GET") ?: return push.expiresIn
        if ((state["ringing"] as? JsonPrimitive)?.booleanOrNull == false) return 0
        return (state["expiresIn"] as? JsonPrimitive)?.longOrNull ?: push.expiresIn
    }

    internal companion object {
        const val RINGING = 1
        const val MISSED = 2
        const val RINGING_CHANNEL = "bellwire-ringing"
        const val MISSED_CHANNEL = "bellwire-missed"
        private const val CALLS_REMEMBERED = 200
        private val lock = Any()

        /** Returns the service's answer; null when the service cannot be reached or does not know the call. */
        fun ask(url: String, method: String): JsonObject? {
            if (url.isEmpty()) return null
            return runCatching {
                val connection = URL(url).openConnection() as HttpURLConnection
                connection.requestMethod = method
                connection.connectTimeout = 2_000
                connection.readTimeout = 2_000
                val text = connection.inputStream.bufferedReader().use { it.readText() }
                Json.parseToJsonElement(text) as? JsonObject
            }.getOrNull()
        }
    }
}
