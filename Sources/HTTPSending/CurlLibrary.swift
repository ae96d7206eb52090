import CCurl
import COpenSSL

/// The library as a whole.
enum CurlLibrary {
    /// Nil when curl can be used.
    static let problem: String? = {
        guard curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, let version = bellwire_curl_version()
        else { return "curl cannot be set up" }
        guard version.pointee.features & CURL_VERSION_ASYNCHDNS != 0 else {
            return "this curl looks names up while everything else waits"
        }
        return nil
    }()

    /// Whether curl has the authorities of this system as one file. Then their directory is not looked at, without which curl
    /// keeps what it has read of the file (CURLOPT_CA_CACHE_TIMEOUT): to read it takes some 10 ms for each connection.
    static let hasAuthorityFile = bellwire_curl_version()?.pointee.cainfo != nil

    /// Why `file` does not hold certificates of authorities; nil when it does.
    static func problem(ofAuthorities file: String) -> String? {
        defer { ERR_clear_error() }
        guard let context = SSL_CTX_new(TLS_client_method()) else { return "no memory" }
        defer { SSL_CTX_free(context) }
        return SSL_CTX_load_verify_locations(context, file, nil) == 1 ? nil : "\(file): no certificates of authorities"
    }

    /// Why OpenSSL does not trust a certificate; nil when it has nothing against it.
    static func certificateReason(_ result: Int) -> String? {
        result == Int(X509_V_OK) ? nil : String(cString: X509_verify_cert_error_string(result))
    }
}
