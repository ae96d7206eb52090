package androidx.core.app

import android.app.Notification
import android.app.PendingIntent
import android.content.Context

class Person private constructor(val name: CharSequence) {
    class Builder {
        private var name: CharSequence = ""

        fun setName(name: CharSequence?) = apply { this.name = name ?: "" }
        fun setImportant(isImportant: Boolean) = this
        fun build() = Person(name)
    }
}

class NotificationCompat {
    class CallStyle(val person: Person, val decline: PendingIntent, val accept: PendingIntent) {
        companion object {
            @JvmStatic
            fun forIncomingCall(person: Person, decline: PendingIntent, accept: PendingIntent) = CallStyle(person, decline, accept)
        }
    }

    class Builder(context: Context, channel: String) {
        private val notification = Notification().also { it.channel = channel }

        fun setSmallIcon(icon: Int) = this
        fun setContentTitle(title: CharSequence?) = apply { notification.title = title.toString() }
        fun setContentText(text: CharSequence?) = apply { notification.text = text.toString() }
        fun setCategory(category: String?) = this
        fun setPriority(priority: Int) = this
        fun setOngoing(isOngoing: Boolean) = this
        fun setOnlyAlertOnce(isOnce: Boolean) = this
        fun setAutoCancel(isCancelled: Boolean) = this
        fun setTimeoutAfter(milliseconds: Long) = apply { notification.timeoutAfter = milliseconds }
        fun setContentIntent(intent: PendingIntent?) = this
        fun setFullScreenIntent(intent: PendingIntent?, isUrgent: Boolean) = this

        fun setStyle(style: CallStyle?) = apply {
            notification.title = style!!.person.name.toString()
            notification.accept = style.accept
            notification.decline = style.decline
        }

        fun build() = notification
    }

    companion object {
        const val CATEGORY_CALL = "call"
        const val CATEGORY_MISSED_CALL = "missed_call"
        const val PRIORITY_MAX = 2
    }
}

class NotificationManagerCompat private constructor() {
    fun notify(tag: String?, id: Int, notification: Notification) {
        shown[tag to id] = notification
    }

    fun cancel(tag: String?, id: Int) {
        shown.remove(tag to id)
    }

    companion object {
        /** The notifications that the phone shows. */
        val shown = mutableMapOf<Pair<String?, Int>, Notification>()

        @JvmStatic
        fun from(context: Context) = NotificationManagerCompat()
    }
}
