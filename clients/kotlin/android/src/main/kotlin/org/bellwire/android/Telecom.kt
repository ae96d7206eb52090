package org.bellwire.android

import android.app.PendingIntent
import android.content.*
import android.net.Uri
import android.os.*
import android.telecom.*
import java.util.concurrent.ConcurrentHashMap

/** The phone's Telecom service, which decides which of several calls sounds. The app shows its calls itself. */
internal object Telecom {
    /**
     * A call of this app; an outgoing call has nothing to accept. `onAnswer`, `onReject` and `onDisconnect` come from a
     * car, a watch or a headset.
     */
    class Ring(
        val callID: String,
        val name: String,
        val accept: PendingIntent? = null,
        val decline: PendingIntent? = null,
        val show: () -> Unit = {},
    ) : Connection() {
        val isOutgoing: Boolean get() = accept == null
        @Volatile var isAnswered = false
        @Volatile var turn = 0 // how many times the call began to ring

        /** Telecom may ask late for a call that was answered meanwhile. */
        fun begin() = if (isAnswered) setActive() else if (isOutgoing) setDialing() else setRinging()
        override fun onShowIncomingCallUi() = if (isAnswered) Unit else show()
        override fun onAnswer() = accept.sendIfThere()
        override fun onReject() = decline.sendIfThere()
        override fun onDisconnect() = if (isAnswered || isOutgoing) hangUp() else onReject()
        fun hangUp() = BellwireAndroid.settings?.hungUp?.invoke(callID) ?: Unit

        fun end(cause: Int) {
            setDisconnected(DisconnectCause(cause))
            destroy()
        }
    }

    /** The calls that Telecom knows or is told of, by call id. */
    private val rings = ConcurrentHashMap<String, Ring>()

    /** The features of phones with Telecom: before Android 13, and from then on. */
    private val features = listOf("android.software.connectionservice", "android.software.telecom")

    private fun account(context: Context) =
        PhoneAccountHandle(ComponentName(context, BellwireConnectionService::class.java), "bellwire")

    private fun manager(context: Context): TelecomManager? =
        context.getSystemService(TelecomManager::class.java)?.takeIf { features.any(context.packageManager::hasSystemFeature) }

    fun register(context: Context) {
        val account = PhoneAccount.builder(account(context), context.applicationInfo.loadLabel(context.packageManager))
            .setCapabilities(PhoneAccount.CAPABILITY_SELF_MANAGED).build()
        // Without the permission MANAGE_OWN_CALLS the app rings by notifications alone.
        runCatching { manager(context)?.registerPhoneAccount(account) }
    }

    /** Tells Telecom of a call that rings for `milliseconds`. Returns whether Telecom has the call shown, or it was answered. */
    fun announce(context: Context, callID: String, ring: Ring, milliseconds: Long): Boolean {
        val telecom = manager(context) ?: return false
        val known = rings.putIfAbsent(callID, ring)
        val current = known ?: ring
        current.turn += 1
        val turn = current.turn
        Handler(Looper.getMainLooper()).postDelayed({
            if (current.turn == turn && rings[callID] === current) ended(callID, DisconnectCause.MISSED, ifRinging = true)
        }, milliseconds)
        // A push and the connection tell of the same call, or the user was cancelled and invited again.
        if (known != null) return known.isAnswered || known.state != Connection.STATE_RINGING
        val extras = Bundle()
        extras.putParcelable(TelecomManager.EXTRA_INCOMING_CALL_ADDRESS, address(callID))
        return isAllowed(callID) { telecom.addNewIncomingCall(account(context), extras) }
    }

    /** Tells Telecom of a call that this user makes. Without Telecom the call goes on by itself. */
    fun place(context: Context, call: Ring) {
        val telecom = manager(context) ?: return
        if (rings.putIfAbsent(call.callID, call) != null) return
        val extras = Bundle()
        extras.putParcelable(TelecomManager.EXTRA_PHONE_ACCOUNT_HANDLE, account(context))
        isAllowed(call.callID) { telecom.placeCall(address(call.callID), extras) }
    }

    private fun address(callID: String) = Uri.fromParts("bellwire", callID, null)

    private fun isAllowed(callID: String, tell: () -> Unit): Boolean = try {
        tell()
        true
    } catch (_: SecurityException) {
        // The permission MANAGE_OWN_CALLS is missing, or the user turned the account off.
        rings.remove(callID)
        false
    }

    fun ring(request: ConnectionRequest?): Ring? = request?.address?.schemeSpecificPart?.let(rings::get)
    fun refused(request: ConnectionRequest?): Ring? = request?.address?.schemeSpecificPart?.let(rings::remove)

    fun answered(callID: String) {
        val ring = rings[callID] ?: return
        ring.isAnswered = true
        ring.setActive()
    }

    /** `ifRinging`: only when the call rings here and is not answered. */
    fun ended(callID: String, cause: Int, ifRinging: Boolean = false) {
        val isRinging = rings[callID]?.run { !isAnswered && !isOutgoing } ?: false
        if (!ifRinging || isRinging) rings.remove(callID)?.end(cause)
    }
}

/** The notification, and its intents with it, may be gone. */
private fun PendingIntent?.sendIfThere() = runCatching { this?.send() ?: Unit }.getOrDefault(Unit)

/** In the manifest, with the permission `android.permission.BIND_TELECOM_CONNECTION_SERVICE`. */
public class BellwireConnectionService : ConnectionService() {
    override fun onCreateIncomingConnection(account: PhoneAccountHandle?, request: ConnectionRequest?): Connection =
        begin(request)

    override fun onCreateOutgoingConnection(account: PhoneAccountHandle?, request: ConnectionRequest?): Connection =
        begin(request)

    private fun begin(request: ConnectionRequest?): Connection {
        val ring = Telecom.ring(request) ?: return Connection.createCanceledConnection()
        ring.setConnectionProperties(Connection.PROPERTY_SELF_MANAGED)
        ring.setAudioModeIsVoip(true)
        ring.setCallerDisplayName(ring.name, TelecomManager.PRESENTATION_ALLOWED)
        ring.begin()
        return ring
    }

    /** A call that Telecom does not take, as during another call, rings by its notification alone. */
    override fun onCreateIncomingConnectionFailed(account: PhoneAccountHandle?, request: ConnectionRequest?) {
        Telecom.refused(request)?.show?.invoke()
    }

    /** A call that the phone does not allow now, as during an emergency call, is hung up. */
    override fun onCreateOutgoingConnectionFailed(account: PhoneAccountHandle?, request: ConnectionRequest?) {
        Telecom.refused(request)?.hangUp()
    }
}
