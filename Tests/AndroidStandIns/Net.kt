package android.net

import android.os.Parcelable

class Uri(val schemeSpecificPart: String) : Parcelable {
    companion object {
        @JvmStatic
        fun fromParts(scheme: String, part: String, fragment: String?) = Uri(part)
    }
}

class Network

class ConnectivityManager {
    fun registerDefaultNetworkCallback(callback: NetworkCallback) = Unit

    open class NetworkCallback {
        open fun onAvailable(network: Network) = Unit
    }
}
