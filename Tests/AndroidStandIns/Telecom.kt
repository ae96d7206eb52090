package android.telecom

import android.content.ComponentName
import android.content.Context
import android.net.Uri
import android.os.Bundle
import android.os.Parcelable

class DisconnectCause(val code: Int) {
    companion object {
        const val LOCAL = 2
        const val REMOTE = 3
        const val CANCELED = 4
        const val MISSED = 5
        const val REJECTED = 6
    }
}

class PhoneAccountHandle(val component: ComponentName, val id: String) : Parcelable

class PhoneAccount(val handle: PhoneAccountHandle, val capabilities: Int) {
    class Builder(private val handle: PhoneAccountHandle) {
        private var capabilities = 0

        fun setCapabilities(capabilities: Int) = apply { this.capabilities = capabilities }
        fun build() = PhoneAccount(handle, capabilities)
    }

    companion object {
        const val CAPABILITY_SELF_MANAGED = 2048

        @JvmStatic
        fun builder(handle: PhoneAccountHandle, label: CharSequence) = Builder(handle)
    }
}

class ConnectionRequest(val address: Uri?)

abstract class Connection {
    var state = 0
        private set
    var cause: Int? = null
        private set
    var isDestroyed = false
        private set

    fun setActive() {
        state = STATE_ACTIVE
    }

    fun setRinging() {
        state = STATE_RINGING
    }

    fun setDialing() {
        state = STATE_DIALING
    }

    fun setDisconnected(cause: DisconnectCause) {
        state = STATE_DISCONNECTED
        this.cause = cause.code
    }

    fun destroy() {
        isDestroyed = true
    }

    fun setConnectionProperties(properties: Int) = Unit
    fun setAudioModeIsVoip(isVoip: Boolean) = Unit
    fun setCallerDisplayName(name: String, presentation: Int) = Unit
    open fun onShowIncomingCallUi() = Unit
    open fun onAnswer() = Unit
    open fun onReject() = Unit
    open fun onDisconnect() = Unit

    companion object {
        const val PROPERTY_SELF_MANAGED = 128
        const val STATE_RINGING = 2
        const val STATE_DIALING = 3
        const val STATE_ACTIVE = 4
        const val STATE_DISCONNECTED = 6

        @JvmStatic
        fun createCanceledConnection(): Connection = object : Connection() {}
    }
}

abstract class ConnectionService : Context() {
    open fun onCreateIncomingConnection(account: PhoneAccountHandle?, request: ConnectionRequest?): Connection? = null
    open fun onCreateIncomingConnectionFailed(account: PhoneAccountHandle?, request: ConnectionRequest?) = Unit
    open fun onCreateOutgoingConnection(account: PhoneAccountHandle?, request: ConnectionRequest?): Connection? = null
    open fun onCreateOutgoingConnectionFailed(account: PhoneAccountHandle?, request: ConnectionRequest?) = Unit
}

class TelecomManager {
    val accounts = mutableListOf<PhoneAccount>()
    val incoming = mutableListOf<Bundle>()
    val outgoing = mutableListOf<Pair<Uri, Bundle>>()
    var isForbidden = false

    fun registerPhoneAccount(account: PhoneAccount) {
        accounts += account
    }

    fun addNewIncomingCall(account: PhoneAccountHandle, extras: Bundle) {
        if (isForbidden) throw SecurityException("MANAGE_OWN_CALLS")
        incoming += extras
    }

    fun placeCall(address: Uri, extras: Bundle) {
        if (isForbidden) throw SecurityException("MANAGE_OWN_CALLS")
        outgoing += address to extras
    }

    companion object {
        const val EXTRA_PHONE_ACCOUNT_HANDLE = "android.telecom.extra.PHONE_ACCOUNT_HANDLE"
        const val EXTRA_INCOMING_CALL_ADDRESS = "android.telecom.extra.INCOMING_CALL_ADDRESS"
        const val PRESENTATION_ALLOWED = 1
    }
}
