package org.bellwire

import java.io.File
import java.nio.file.Files
import java.security.KeyStore
import javax.net.ssl.KeyManagerFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory

/** A certificate of the loopback addresses, which the JDK's own tool makes. */
internal object TestCertificate {
    private const val PASSWORD = "password"

    /** Shows the certificate, and trusts it. */
    val context: SSLContext by lazy {
        val directory = Files.createTempDirectory("bellwire-certificate").toFile()
        try {
            val file = File(directory, "keys.p12")
            val tool = ProcessBuilder(
                "${System.getProperty("java.home")}/bin/keytool", "-genkeypair", "-alias", "broker", "-keyalg", "EC",
                "-dname", "CN=localhost", "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-validity", "2",
                "-storetype", "PKCS12", "-keystore", file.path, "-storepass", PASSWORD,
            ).redirectErrorStream(true).start()
            val text = tool.inputStream.reader().readText()
            check(tool.waitFor() == 0) { text }
            val store = KeyStore.getInstance("PKCS12")
            file.inputStream().use { store.load(it, PASSWORD.toCharArray()) }
            val keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm())
            keys.init(store, PASSWORD.toCharArray())
            val trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()).apply { init(store) }
            SSLContext.getInstance("TLS").apply { init(keys.keyManagers, trust.trustManagers, null) }
        } finally {
            directory.deleteRecursively()
        }
    }
}
