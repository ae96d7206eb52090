import Basics
import COpenSSL
import Glibc

/// The reason why a session cannot be used.
package struct TLSError: Error, CustomStringConvertible {
    /// Whether the two sides do not trust each other or do not agree on TLS; false for a connection that broke.
    package let isTrust: Bool
    package let description: String

    package init(isTrust: Bool, _ description: String) {
        self.isTrust = isTrust
        self.description = description
    }
}

/// The client side of TLS on bytes alone: a session uses no socket (OpenSSL does the rest). The version is at least TLS
/// 1.2; the server's certificate must be for the host, and signed by one of the authorities.
package final class TLSSession {
    package struct Configuration: Sendable {
        package let host: String
        /// The PEM file of the authorities to trust; nil for the authorities of this system.
        package let certificateAuthorityFile: String?
        /// The PEM files of the certificate and the key that this side shows; nil for none.
        package let certificateFile: String?
        package let certificateKeyFile: String?
        /// The server's name in errors, such as "the broker".
        package let peer: String

        package init(
            host: String, certificateAuthorityFile: String?, certificateFile: String? = nil,
            certificateKeyFile: String? = nil, peer: String
        ) {
            self.host = host
            self.certificateAuthorityFile = certificateAuthorityFile
            self.certificateFile = certificateFile
            self.certificateKeyFile = certificateKeyFile
            self.peer = peer
        }
    }

    private let configuration: Configuration
    private let context: OpaquePointer
    private let session: OpaquePointer
    /// The bytes that came from the server, and the bytes for the server.
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private var isEstablished = false
    private var plaintext = [UInt8](repeating: 0, count: 16 * 1024)

    package init(_ configuration: Configuration) throws(TLSError) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw Self.unusable("no memory") }
        do throws(TLSError) {
            try Self.configure(context, configuration)
        } catch {
            SSL_CTX_free(context)
            throw error
        }
        guard let session = SSL_new(context), let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
        else {
            SSL_CTX_free(context)
            throw Self.unusable("no memory")
        }
        self.configuration = configuration
        self.context = context
        self.session = session
        self.incoming = incoming
        self.outgoing = outgoing
        // From here on the session owns both BIOs.
        SSL_set_bio(session, incoming, outgoing)
        SSL_set_connect_state(session)
        guard Self.expect(configuration.host, session) else {
            throw Self.unusable("\(configuration.host) cannot be the name in a certificate")
        }
    }

    deinit {
        PeerCertificates.forget(self)
        SSL_free(session)
        SSL_CTX_free(context)
    }

    private static func unusable(_ what: String) -> TLSError {
        TLSError(isTrust: true, "TLS cannot be set up: \(what): \(lastError)")
    }

    private static func configure(
        _ context: OpaquePointer, _ configuration: Configuration
    ) throws(TLSError) {
        ERR_clear_error()
        guard bellwire_tls_prepare(context) == 1 else { throw unusable("TLS 1.2") }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        if let file = configuration.certificateAuthorityFile {
            guard SSL_CTX_load_verify_locations(context, file, nil) == 1 else {
                throw unusable("\(file): no certificates of authorities")
            }
        } else {
            guard SSL_CTX_set_default_verify_paths(context) == 1 else { throw unusable("the system's authorities") }
        }
        if let file = configuration.certificateFile {
            guard SSL_CTX_use_certificate_chain_file(context, file) == 1 else {
                throw unusable("\(file): no certificate")
            }
        }
        if let file = configuration.certificateKeyFile {
            guard SSL_CTX_use_PrivateKey_file(context, file, SSL_FILETYPE_PEM) == 1,
                SSL_CTX_check_private_key(context) == 1
            else { throw unusable("\(file): no key, or not that of the certificate") }
        }
    }

    /// Requires a certificate for this host, by name or by address, among its alternative names: the subject's common
    /// name is not used as a host name, and a wildcard stands for a whole label (RFC 9525, section 6.3). Returns false
    /// when the host cannot be checked.
    private static func expect(_ host: String, _ session: OpaquePointer) -> Bool {
        SSL_set_hostflags(
            session, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        var address = in6_addr()
        if inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1 {
            return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1
        }
        return SSL_set1_host(session, host) == 1 && bellwire_tls_server_name(session, host) == 1
    }

    /// Decrypts bytes from the server and appends the plaintext to `input`. Returns false when the server has closed
    /// the session.
    package func receive(_ ciphertext: UnsafeRawBufferPointer, _ input: inout ByteQueue) throws(TLSError) -> Bool {
        guard BIO_write(incoming, ciphertext.baseAddress, Int32(ciphertext.count)) == ciphertext.count else {
            throw TLSError(isTrust: false, "no memory")
        }
        try shakeHands()
        while isEstablished {
            ERR_clear_error()
            let count = SSL_read(session, &plaintext, Int32(plaintext.count))
            guard count > 0 else { return try mayGoOn(after: count) }
            input.append { $0 += plaintext[..<Int(count)] }
        }
        return true
    }

    /// Encrypts some bytes of `queue`, once the handshake is done, and appends the bytes for the server to `output`.
    package func send(_ queue: inout ByteQueue, _ output: inout ByteQueue) throws(TLSError) {
        try shakeHands()
        if isEstablished, !queue.isEmpty {
            ERR_clear_error()
            let count = queue.read { SSL_write(session, $0.baseAddress, Int32(min($0.count, Self.mostAtOnce))) }
            // `SSL_write` never has to wait here, since renegotiation is off and a memory BIO takes all bytes.
            guard count > 0 else { throw TLSError(isTrust: false, "TLS: \(Self.lastError)") }
            queue.take(Int(count))
        }
        takeOutgoing(&output)
    }

    private static let mostAtOnce = 64 * 1024

    /// Closes the session, and appends the closing message to `output`.
    package func close(_ output: inout ByteQueue) {
        if isEstablished { SSL_shutdown(session) }
        ERR_clear_error()
        takeOutgoing(&output)
    }

    private func shakeHands() throws(TLSError) {
        guard !isEstablished else { return }
        ERR_clear_error()
        let result = SSL_do_handshake(session)
        isEstablished = result == 1
        guard isEstablished else { return _ = try mayGoOn(after: result) }
        if let certificate = SSL_get0_peer_certificate(session), let end = end(of: certificate) {
            PeerCertificates.note(self, peer: configuration.peer, end: end)
        }
    }

    /// Whether the session waits for more bytes; false when the server has closed the session in good order.
    private func mayGoOn(after result: Int32) throws(TLSError) -> Bool {
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return true
        case SSL_ERROR_ZERO_RETURN: return false
        default:
            throw TLSError(isTrust: true, "TLS: \(reason)")
        }
    }

    /// The reason why there is no session: this side does not trust the server, or the server does not trust this side
    /// or does not speak TLS.
    private var reason: String {
        let verification = Int32(truncatingIfNeeded: SSL_get_verify_result(session))
        let code = ERR_peek_error()
        if verification != X509_V_OK {
            ERR_clear_error()
            let text = String(cString: X509_verify_cert_error_string(Int(verification)))
            let trusted = Self.untrusted.contains(verification) ? ", by \(authorities)" : ""
            return "the certificate of \(configuration.host) is not to be trusted: \(text)\(trusted)"
        }
        guard ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET else { return Self.lastError }
        let own = configuration.certificateFile == nil ? "no certificate was shown" : "a certificate was shown"
        return "\(configuration.peer) refuses this client: \(Self.lastError) (\(own))"
    }

    /// The errors of certificates that no trusted authority has signed.
    private static let untrusted: Set<Int32> = [
        X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
        X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
        X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_SIGNATURE_FAILURE,
    ]

    private var authorities: String {
        configuration.certificateAuthorityFile.map { "the authorities in \($0)" } ?? "the authorities of this system"
    }

    private static var lastError: String {
        let code = ERR_get_error()
        ERR_clear_error()
        return ERR_reason_error_string(code).map { String(cString: $0) } ?? "the connection broke"
    }

    /// Appends to `output` the bytes for the server, with handshake and alerts.
    package func takeOutgoing(_ output: inout ByteQueue) {
        while BIO_ctrl_pending(outgoing) > 0 {
            let count = BIO_read(outgoing, &plaintext, Int32(plaintext.count))
            guard count > 0 else { return }
            output.append { $0 += plaintext[..<Int(count)] }
        }
    }
}
