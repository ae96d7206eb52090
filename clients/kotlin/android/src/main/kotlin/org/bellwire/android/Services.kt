package org.bellwire.android

import android.content.*
import android.telecom.DisconnectCause
import com.google.firebase.messaging.*
import kotlin.concurrent.thread

/**
 * Receives the pushes of Firebase Cloud Messaging. The app has a subclass, in its manifest for
 * `com.google.firebase.MESSAGING_EVENT`.
 */
public abstract class BellwireMessagingService : FirebaseMessagingService() {
    /** The app stores the token, and calls `client.registerPush` whenever its client has connected. */
    public abstract fun tokenChanged(token: String)

    override fun onNewToken(token: String): Unit = tokenChanged(token)
    /** Android calls this on a thread of its own, for some ten seconds. */
    override fun onMessageReceived(message: RemoteMessage) {
        message.data["bellwire"]?.let { Ringing(applicationContext).take(it) }
    }
}

/** Declines a call from its notification, by the app's client where that is connected, and by the ring check. */
public class DeclineReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        val callID = intent.data?.schemeSpecificPart ?: return
        val ringing = Ringing(context)
        ringing.stop(callID, DisconnectCause.REJECTED)
        BellwireAndroid.settings?.declined?.invoke(callID)
        val check = ringing.last(callID)?.check?.ifEmpty { null } ?: return
        // Android lets the process live for some ten seconds.
        val result = goAsync()
        thread { runCatching { decline(check) }.also { result.finish() } }
    }

    /** Declines at the address of the ring check, with `/reject` behind its path (docs/push.md). Tries twice. */
    private fun decline(check: String) {
        val reject = if ('?' in check) check.replaceFirst("?", "/reject?") else "$check/reject"
        for (pause in longArrayOf(0, 500)) {
            Thread.sleep(pause)
            if (Ringing.ask(reject, "POST") != null) return
        }
    }
}
