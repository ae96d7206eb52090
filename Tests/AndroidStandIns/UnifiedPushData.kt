package org.unifiedpush.android.connector.data

class PublicKeySet(val pubKey: String, val auth: String)

class PushEndpoint(val url: String, val pubKeySet: PublicKeySet?)

class PushMessage(val content: ByteArray, val decrypted: Boolean)
