import CMicrohttpd
import Synchronization

/// The certificate of a server of HTTPS, which may be replaced while the server runs. A handshake that has begun ends
/// with the certificate that was current at its start.
final class HTTPSCertificate: Sendable {
    /// A certificate with its chain and its private key, as GnuTLS reads them.
    final class Loaded: @unchecked Sendable {
        // Sendable: nothing changes after `init`, and GnuTLS only reads.

        fileprivate let chain: UnsafeMutablePointer<gnutls_pcert_st>
        fileprivate let count: UInt32
        fileprivate let key: gnutls_privkey_t

        /// - Throws: when the texts are not a certificate and its key in PEM.
        init(_ tls: HTTPServerSettings.TLS) throws(Problem) {
            let most = UInt32(BELLWIRE_HTTP_CHAIN)
            let room = UnsafeMutablePointer<gnutls_pcert_st>.allocate(capacity: Int(most))
            var (found, made) = (most, gnutls_privkey_t?.none)
            let code = bellwire_http_load(tls.certificates, tls.key, room, &found, &made)
            guard code == 0, let made else {
                room.deallocate()
                throw Problem(reason: String(cString: gnutls_strerror(code)))
            }
            (chain, count, key) = (room, found, made)
        }

        deinit {
            for place in 0..<Int(count) { gnutls_pcert_deinit(chain + place) }
            chain.deallocate()
            gnutls_privkey_deinit(key)
        }
    }

    /// The reason why a certificate cannot be used.
    struct Problem: Error {
        let reason: String
    }

    /// The certificate of a connection. The handshake chooses the server's current certificate, and the connection
    /// keeps that certificate until its end.
    private struct Session {
        let server: HTTPSCertificate
        var chosen: Loaded?
    }

    private let current: Mutex<Loaded>

    /// The connections of all servers of the process, by the addresses of their GnuTLS sessions: microhttpd asks for
    /// the certificate of a session, and does not tell which server the session belongs to.
    private static let sessions = Mutex<[UInt: Session]>([:])

    init(_ tls: HTTPServerSettings.TLS) throws(Problem) {
        current = Mutex(try Loaded(tls))
    }

    /// Replaces the certificate for later handshakes.
    func replace(with loaded: Loaded) { current.withLock { $0 = loaded } }

    /// Called before the handshake of a connection.
    func opened(_ connection: ConnectionHandle) {
        let session = UInt(bitPattern: bellwire_http_session(connection.pointer))
        Self.sessions.withLock { $0[session] = Session(server: self) }
    }

    /// Called when microhttpd has freed the connection's session. The thread of another server may have a new session
    /// at the same address by now, which stays.
    func closed(_ connection: ConnectionHandle) {
        let session = UInt(bitPattern: bellwire_http_session(connection.pointer))
        Self.sessions.withLock { sessions in
            if sessions[session]?.server === self { sessions[session] = nil }
        }
    }

    /// Returns the certificate for the handshake of a session.
    fileprivate static func choose(for session: UInt) -> Loaded? {
        sessions.withLock { sessions in
            guard let server = sessions[session]?.server else { return nil }
            let loaded = sessions[session]?.chosen ?? server.current.withLock(\.self)
            sessions[session]?.chosen = loaded
            return loaded
        }
    }
}

/// Called by GnuTLS during a handshake. The session's entry keeps what the pointers point to. A C callback is a
/// function, because a closure would inherit the actor isolation of its context.
func chooseCertificate(
    _ session: gnutls_session_t?, _: UnsafePointer<gnutls_datum_t>?, _: Int32,
    _: UnsafePointer<gnutls_pk_algorithm_t>?, _: Int32,
    _ chain: UnsafeMutablePointer<UnsafeMutablePointer<gnutls_pcert_st>?>?, _ count: UnsafeMutablePointer<UInt32>?,
    _ key: UnsafeMutablePointer<gnutls_privkey_t?>?
) -> Int32 {
    guard let session, let loaded = HTTPSCertificate.choose(for: UInt(bitPattern: session)) else { return -1 }
    chain?.pointee = loaded.chain
    count?.pointee = loaded.count
    key?.pointee = loaded.key
    return 0
}
