import CCurl

/// Sets options of one transfer, and remembers whether curl has taken them all: a request of which one was not taken is not sent.
struct TransferOptions {
    private let handle: UnsafeMutableRawPointer
    private(set) var areTaken = true

    init(_ handle: UnsafeMutableRawPointer) { self.handle = handle }

    mutating func set(_ option: CURLoption, _ value: Int) { note(bellwire_curl_set_number(handle, option, value)) }

    /// Nil is curl's default, or nothing, as the option says.
    mutating func set(_ option: CURLoption, _ value: String?) { note(bellwire_curl_set_text(handle, option, value)) }

    /// What the pointer leads to must outlive the transfer.
    mutating func set(_ option: CURLoption, pointer: UnsafeRawPointer?) {
        note(bellwire_curl_set_pointer(handle, option, pointer))
    }

    mutating func note(_ code: CURLcode) { areTaken = areTaken && code == CURLE_OK }

    /// What a stranger's server must not be able to make us do, nor the environment of this process.
    mutating func setSafety() {
        set(CURLOPT_PROTOCOLS_STR, "https")
        set(CURLOPT_REDIR_PROTOCOLS_STR, "https")
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_PROXY, "")
        set(CURLOPT_NOPROXY, "*")
        set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        set(CURLOPT_HTTP09_ALLOWED, 0)
        // No bytes of the body stand for more of them.
        set(CURLOPT_ACCEPT_ENCODING, nil)
        set(CURLOPT_HTTP_CONTENT_DECODING, 0)
        set(CURLOPT_TRANSFER_ENCODING, 0)
        // It would take signals for the whole process.
        set(CURLOPT_NOSIGNAL, 1)
    }

    mutating func setTLS(_ authorities: String?) {
        set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        if let authorities { set(CURLOPT_CAINFO, authorities) }
        // The directory of the system's would count beside the file.
        if authorities != nil || CurlLibrary.hasAuthorityFile { set(CURLOPT_CAPATH, nil) }
        set(CURLOPT_CA_CACHE_TIMEOUT, Self.authoritiesKept)
    }

    /// `sharing`: a request waits for another one's handshake with the same server, to go by that connection if it is of HTTP/2. Of those that
    /// wait curl does not look at the time: the sender's loop does.
    mutating func setConnection(timeout: Int64, sharing: Bool) {
        set(CURLOPT_TIMEOUT_MS, Int(timeout))
        set(CURLOPT_CONNECTTIMEOUT_MS, Int(timeout))
        // HTTP/2 where it is offered.
        set(CURLOPT_PIPEWAIT, sharing ? 1 : 0)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        set(CURLOPT_MAXLIFETIME_CONN, sharing ? Self.sharedConnectionKept : Self.connectionKept)
        if sharing { keepAlive() }
        // A lookup that is given up goes on in a thread of its own. Without this everything would wait for it.
        set(CURLOPT_QUICK_EXIT, 1)
    }

    /// A provider expects that connections are kept, and a push must not wait for a handshake each time: also while there is nothing to send for
    /// a while, and also behind a router that forgets connections on which nothing is said.
    private mutating func keepAlive() {
        set(CURLOPT_MAXAGE_CONN, Self.sharedConnectionKept)
        set(CURLOPT_TCP_KEEPALIVE, 1)
        set(CURLOPT_TCP_KEEPIDLE, Self.aliveAfter)
        set(CURLOPT_TCP_KEEPINTVL, Self.aliveAfter)
    }

    /// Seconds after which a connection takes no more requests: who has moved is found at the new address.
    private static let connectionKept = 300
    private static let sharedConnectionKept = 3_600
    /// Seconds without a byte after which the other side is asked whether it is there.
    private static let aliveAfter = 30
    /// Seconds after which the file of authorities is read again.
    private static let authoritiesKept = 600
}
