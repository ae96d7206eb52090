package android.content.pm

class ApplicationInfo {
    fun loadLabel(manager: PackageManager): CharSequence = "App"
}

class PackageManager {
    /** The names of the phone's features. */
    val features = mutableSetOf<String>()

    fun hasSystemFeature(name: String): Boolean = name in features

    companion object {
        const val PERMISSION_GRANTED = 0
    }
}
