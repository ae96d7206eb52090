import CCurl

/// Sets the options of a transfer, and remembers whether curl has accepted all options: a request is not sent if an
/// option was refused.
struct TransferOptions {
    private let handle: UnsafeMutableRawPointer
    private(set) var areTaken = true

    init(_ handle: UnsafeMutableRawPointer) { self.handle = handle }

    mutating func set(_ option: CURLoption, _ value: Int) { note(bellwire_curl_set_number(handle, option, value)) }

    /// Nil stands for curl's default, or for no value, as the option defines.
    mutating func set(_ option: CURLoption, _ value: String?) { note(bellwire_curl_set_text(handle, option, value)) }

    /// The memory of the pointer must outlive the transfer.
    mutating func set(_ option: CURLoption, pointer: UnsafeRawPointer?) {
        note(bellwire_curl_set_pointer(handle, option, pointer))
    }

    mutating func note(_ code: CURLcode) { areTaken = areTaken && code == CURLE_OK }

    /// Excludes features that a stranger's server, or the environment of this process, could abuse.
    /// - Parameter scheme: the scheme of the URL, and the only protocol of the transfer.
    mutating func setSafety(_ scheme: String) {
        set(CURLOPT_PROTOCOLS_STR, scheme)
        set(CURLOPT_REDIR_PROTOCOLS_STR, "https")
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_PROXY, "")
        set(CURLOPT_NOPROXY, "*")
        set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        set(CURLOPT_HTTP09_ALLOWED, 0)
        // A compressed body could expand to many more bytes.
        set(CURLOPT_ACCEPT_ENCODING, nil)
        set(CURLOPT_HTTP_CONTENT_DECODING, 0)
        set(CURLOPT_TRANSFER_ENCODING, 0)
        // Otherwise curl would use signals, and signals affect the whole process.
        set(CURLOPT_NOSIGNAL, 1)
    }

    mutating func setTLS(_ authorities: String?) {
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        if let authorities { set(CURLOPT_CAINFO, authorities) }
        // The system's directory of authorities would count beside the file.
        if authorities != nil || CurlLibrary.hasAuthorityFile { set(CURLOPT_CAPATH, nil) }
        set(CURLOPT_CA_CACHE_TIMEOUT, Self.authoritiesKept)
    }

    /// - Parameter sharing: whether the request waits while another request opens a connection to the same server, and
    ///   then uses that connection if the connection speaks HTTP/2. curl ignores `timeout` for a request that waits in
    ///   this way, so the sender's loop ends such a request in time.
    mutating func setConnection(timeout: Int64, sharing: Bool) {
        set(CURLOPT_TIMEOUT_MS, Int(timeout))
        set(CURLOPT_CONNECTTIMEOUT_MS, Int(timeout))
        // HTTP/2 where the server offers it.
        set(CURLOPT_PIPEWAIT, sharing ? 1 : 0)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        set(CURLOPT_MAXLIFETIME_CONN, sharing ? Self.sharedConnectionKept : Self.connectionKept)
        if sharing { keepAlive() }
        // An abandoned name lookup continues in its own thread. Without this option curl would wait for that thread.
        set(CURLOPT_QUICK_EXIT, 1)
    }

    /// A provider expects that connections are kept, and a push must not wait for a handshake each time. Keep-alive
    /// probes keep the connection open also during pauses, and also behind a router that forgets silent connections.
    private mutating func keepAlive() {
        set(CURLOPT_MAXAGE_CONN, Self.sharedConnectionKept)
        set(CURLOPT_TCP_KEEPALIVE, 1)
        set(CURLOPT_TCP_KEEPIDLE, Self.aliveAfter)
        set(CURLOPT_TCP_KEEPINTVL, Self.aliveAfter)
    }

    /// The life of a connection in seconds; an older connection takes no more requests, so that a server that has moved
    /// is found at its new address.
    private static let connectionKept = 300
    private static let sharedConnectionKept = 3_600
    /// The seconds of silence before a keep-alive probe.
    private static let aliveAfter = 30
    /// The seconds before curl reads the file of authorities again.
    private static let authoritiesKept = 600
}
