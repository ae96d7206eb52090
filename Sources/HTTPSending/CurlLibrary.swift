import CCurl
import COpenSSL

/// The curl library.
enum CurlLibrary {
    /// The reason why curl cannot be used; nil for a usable curl.
    static let problem: String? = {
        guard curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, let version = bellwire_curl_version()
        else { return "curl cannot be set up" }
        guard version.pointee.features & CURL_VERSION_ASYNCHDNS != 0 else {
            return "this curl has no asynchronous name lookup"
        }
        return nil
    }()

    /// Whether curl has the system's certificate authorities in a single file. Then the directory of authorities is
    /// left out, because with the directory curl would not cache the contents of the file (CURLOPT_CA_CACHE_TIMEOUT),
    /// and reading the file takes some 10 ms for each connection.
    static let hasAuthorityFile = bellwire_curl_version()?.pointee.cainfo != nil

    /// Returns the reason why `file` contains no certificates of authorities; nil for a valid file.
    static func problem(ofAuthorities file: String) -> String? {
        defer { ERR_clear_error() }
        guard let context = SSL_CTX_new(TLS_client_method()) else { return "no memory" }
        defer { SSL_CTX_free(context) }
        return SSL_CTX_load_verify_locations(context, file, nil) == 1 ? nil : "\(file): no certificates of authorities"
    }

    /// Returns the reason why OpenSSL rejects a certificate; nil when OpenSSL accepts the certificate.
    static func certificateReason(_ result: Int) -> String? {
        result == Int(X509_V_OK) ? nil : String(cString: X509_verify_cert_error_string(result))
    }
}
