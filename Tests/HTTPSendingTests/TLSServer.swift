import COpenSSL
import Glibc
import Testing

/// A server of TLS at a port of 127.0.0.1.
final class TLSServer: Sendable {
    /// The protocols that the server speaks.
    enum Kind {
        case http1
        case http2
        /// The server speaks no newer version than TLS 1.1.
        case old
    }

    private let listener: Listener
    let certificate: CertificateFiles
    var port: Int { listener.port }
    /// The number of connections so far, also of connections without a request.
    var accepted: Int { listener.accepted }

    /// Calls `serve` on the connection's own thread after the handshake. The server is not ready for the handshake
    /// before `isReady` returns. The connection ends when `serve` returns.
    init(
        _ kind: Kind = .http1, certificate: CertificateFiles? = nil,
        isReady: @escaping @Sendable () -> Void = {}, _ serve: @escaping @Sendable (TLSConnection) -> Void
    ) throws {
        let certificate = try certificate ?? CertificateFiles()
        let context = try #require(ServerContext(kind, certificate))
        self.certificate = certificate
        listener = Listener { descriptor in
            isReady()
            if let connection = TLSConnection(descriptor, context) { serve(connection) }
        }
    }
}

/// OpenSSL's settings of a server.
final class ServerContext: @unchecked Sendable {
    // Sendable: the context never changes after it is made, and OpenSSL lets several threads make their sessions of it.

    let context: OpaquePointer

    init?(_ kind: TLSServer.Kind, _ files: CertificateFiles) {
        guard let context = SSL_CTX_new(TLS_server_method()),
            SSL_CTX_use_certificate_chain_file(context, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(context, files.key, SSL_FILETYPE_PEM) == 1
        else { return nil }
        switch kind {
        case .http1: break
        case .http2:
            SSL_CTX_set_alpn_select_cb(context, chooseHTTP2, nil)
            // When a connection has nothing to read but a ticket, a curl that looks after the connection takes it for
            // dead and makes another.
            SSL_CTX_set_num_tickets(context, 0)
        case .old:
            SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(TLS1_1_VERSION), nil)
            SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0")
        }
        self.context = context
    }

    deinit { SSL_CTX_free(context) }
}

private func chooseHTTP2(
    _: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ length: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ count: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
    var index = 0
    while let offered, index < Int(count) {
        let name = UnsafeBufferPointer(start: offered + index + 1, count: Int(offered[index]))
        if name.elementsEqual("h2".utf8) {
            chosen?.pointee = name.baseAddress
            length?.pointee = UInt8(name.count)
            return SSL_TLSEXT_ERR_OK
        }
        index += name.count + 1
    }
    return SSL_TLSEXT_ERR_NOACK
}

/// The connection of a client, for a single thread.
final class TLSConnection {
    private let session: OpaquePointer
    private var received: [UInt8] = []

    /// Nil when the handshake failed.
    init?(_ descriptor: Int32, _ context: ServerContext) {
        guard let session = SSL_new(context.context) else { return nil }
        self.session = session
        guard SSL_set_fd(session, descriptor) == 1, SSL_accept(session) == 1 else { return nil }
    }

    deinit {
        SSL_free(session)
        ERR_clear_error()
    }

    /// False when the client has gone.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        ERR_clear_error()
        return SSL_write(session, bytes, Int32(bytes.count)) > 0
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// The next `count` bytes; nil when the client has gone before.
    func read(_ count: Int) -> [UInt8]? {
        while received.count < count { guard receive() else { return nil } }
        defer { received.removeFirst(count) }
        return Array(received[..<count])
    }

    /// The bytes before the next empty line; nil when the client has gone before.
    func readHead() -> String? {
        let end = Array("\r\n\r\n".utf8)
        while true {
            let starts = received.indices.dropLast(end.count - 1)
            if let start = starts.first(where: { received[$0...].starts(with: end) }) {
                defer { received.removeFirst(start + end.count) }
                return String(decoding: received[..<start], as: UTF8.self)
            }
            guard receive() else { return nil }
        }
    }

    private func receive() -> Bool {
        ERR_clear_error()
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        let count = SSL_read(session, &buffer, Int32(buffer.count))
        guard count > 0 else { return false }
        received += buffer[..<Int(count)]
        return true
    }
}
