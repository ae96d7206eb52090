import Basics
import COpenSSL
import Glibc
import TLSClient
import Testing

@testable import MQTTClient

/// The certificates that the client takes for the broker's certificate: the alternative names must have the host's
/// name, as a whole or by a wildcard that stands for a whole label (RFC 9525, sections 6.3 and 6.4.4).
struct TLSNameTests {
    struct Certificate: Sendable, CustomStringConvertible {
        let host: String
        let subject: String
        var alternativeNames: String?
        let isTaken: Bool

        var description: String { "\(subject) \(alternativeNames ?? "-") for \(host)" }
    }

    @Test(arguments: [
        Certificate(
            host: "broker.example.com", subject: "x", alternativeNames: "DNS:broker.example.com", isTaken: true),
        Certificate(host: "broker.example.com", subject: "x", alternativeNames: "DNS:*.example.com", isTaken: true),
        Certificate(host: "127.0.0.1", subject: "x", alternativeNames: "IP:127.0.0.1", isTaken: true),
        Certificate(host: "broker.example.com", subject: "broker.example.com", isTaken: false),
        Certificate(
            host: "broker.example.com", subject: "broker.example.com", alternativeNames: "IP:127.0.0.1", isTaken: false),
        Certificate(host: "broker.example.com", subject: "x", alternativeNames: "DNS:b*.example.com", isTaken: false),
        Certificate(host: "broker.example.com", subject: "x", alternativeNames: "DNS:*r.example.com", isTaken: false),
        Certificate(
            host: "broker.example.com", subject: "x", alternativeNames: "DNS:other.example.com", isTaken: false),
        Certificate(host: "127.0.0.1", subject: "127.0.0.1", isTaken: false),
    ])
    func aCertificateIsTakenForTheNamesThatItLists(_ certificate: Certificate) throws {
        let files = try CertificateFiles(certificate.subject, certificate.alternativeNames)
        let server = try #require(TLSServer(files))
        let client = try TLSSession(
            .init(host: certificate.host, certificateAuthorityFile: files.certificate, peer: "the broker"))
        #expect(shakeHands(client, server) == certificate.isTaken)
    }

    /// Whether the client takes the server for the broker.
    private func shakeHands(_ client: TLSSession, _ server: TLSServer) -> Bool {
        var (output, input, nothing) = (ByteQueue(), ByteQueue(), ByteQueue())
        do {
            for _ in 0..<10 where !server.isEstablished {
                try client.send(&nothing, &output)
                server.receive(output.read { Array($0) })
                output.take(output.count)
                let answer = server.takeOutgoing()
                _ = try answer.withUnsafeBytes { try client.receive($0, &input) }
            }
            return server.isEstablished
        } catch {
            #expect((error as? TLSError)?.isTrust == true && "\(error)".lowercased().contains("mismatch"), "\(error)")
            return false
        }
    }
}

/// A certificate that signs itself, and its key.
private final class CertificateFiles {
    private let directory: String
    var certificate: String { directory + "/broker.crt" }
    var key: String { directory + "/broker.key" }

    init(_ subject: String, _ alternativeNames: String?) throws {
        var name = Array("/tmp/bellwire-tls-XXXXXX".utf8CString)
        directory = String(cString: try #require(mkdtemp(&name)))
        let extensions = alternativeNames.map { "-addext 'subjectAltName=\($0)'" } ?? ""
        let status = system(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=\(subject)' "
                + "\(extensions) -keyout \(directory)/broker.key -out \(directory)/broker.crt 2>/dev/null")
        try #require(status == 0)
    }

    deinit {
        unlink(certificate)
        unlink(key)
        rmdir(directory)
    }
}

/// The other side of a handshake, in memory.
private final class TLSServer {
    private let context: OpaquePointer
    private let session: OpaquePointer
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private(set) var isEstablished = false

    init?(_ files: CertificateFiles) {
        guard let context = SSL_CTX_new(TLS_server_method()),
            SSL_CTX_use_certificate_chain_file(context, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(context, files.key, SSL_FILETYPE_PEM) == 1, let session = SSL_new(context),
            let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
        else { return nil }
        SSL_set_bio(session, incoming, outgoing)
        SSL_set_accept_state(session)
        (self.context, self.session, self.incoming, self.outgoing) = (context, session, incoming, outgoing)
    }

    deinit {
        SSL_free(session)
        SSL_CTX_free(context)
    }

    func receive(_ bytes: [UInt8]) {
        if !bytes.isEmpty { BIO_write(incoming, bytes, Int32(bytes.count)) }
        isEstablished = SSL_do_handshake(session) == 1
        ERR_clear_error()
    }

    func takeOutgoing() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 64 * 1024)
        let count = BIO_read(outgoing, &bytes, Int32(bytes.count))
        return Array(bytes[..<max(0, Int(count))])
    }
}
