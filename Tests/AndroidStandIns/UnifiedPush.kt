package org.unifiedpush.android.connector

import android.content.Context
import org.unifiedpush.android.connector.data.PushEndpoint
import org.unifiedpush.android.connector.data.PushMessage

enum class FailedReason { INTERNAL_ERROR }

abstract class PushService : Context() {
    abstract fun onNewEndpoint(endpoint: PushEndpoint, instance: String)
    abstract fun onMessage(message: PushMessage, instance: String)
    abstract fun onUnregistered(instance: String)
    abstract fun onRegistrationFailed(reason: FailedReason, instance: String)
}

object UnifiedPush {
    fun tryUseCurrentOrDefaultDistributor(context: Context, callback: (Boolean) -> Unit) = callback(true)
    fun register(context: Context, instance: String = "default", messageForDistributor: String? = null, vapid: String? = null) = Unit
}
