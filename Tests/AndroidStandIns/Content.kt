package android.content

import android.content.pm.ApplicationInfo
import android.content.pm.PackageManager
import android.net.Uri

open class Context {
    private val preferences = mutableMapOf<String, SharedPreferences>()
    val services = mutableMapOf<Class<*>, Any>()
    open val applicationContext: Context get() = this
    val packageManager = PackageManager()
    val applicationInfo = ApplicationInfo()

    fun getSharedPreferences(name: String, mode: Int): SharedPreferences = preferences.getOrPut(name, ::SharedPreferences)

    @Suppress("UNCHECKED_CAST")
    fun <T : Any> getSystemService(type: Class<T>): T? = services[type] as T?

    companion object {
        const val MODE_PRIVATE = 0
    }
}

class SharedPreferences {
    val all = mutableMapOf<String, String>()

    fun getString(name: String, otherwise: String?): String? = all[name] ?: otherwise
    fun edit() = Editor()

    inner class Editor {
        fun clear() = apply { all.clear() }
        fun putString(name: String, value: String?) = apply { all[name] = value!! }
        fun apply() = Unit
    }
}

class ComponentName(context: Context, val type: Class<*>)

class Intent() {
    constructor(context: Context, type: Class<*>) : this()

    private val extras = mutableMapOf<String, String>()
    var action: String? = null
        private set
    var data: Uri? = null
        private set

    fun setAction(action: String?) = apply { this.action = action }
    fun setData(data: Uri?) = apply { this.data = data }
    fun putExtra(name: String, value: String) = apply { extras[name] = value }
    fun getStringExtra(name: String): String? = extras[name]
}

abstract class BroadcastReceiver {
    var finished = 0

    abstract fun onReceive(context: Context, intent: Intent)
    fun goAsync() = PendingResult()

    inner class PendingResult {
        fun finish() {
            finished += 1
        }
    }
}
