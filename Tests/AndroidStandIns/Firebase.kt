package com.google.firebase.messaging

import android.content.Context

class RemoteMessage(val data: Map<String, String>)

open class FirebaseMessagingService : Context() {
    open fun onNewToken(token: String) = Unit
    open fun onMessageReceived(message: RemoteMessage) = Unit
}
