import Glibc
import Testing

@testable import HTTPSending

/// The protection against strangers' URLs, servers and names.
struct StrangersTests {
    private let server: WebServer
    private let sender: HTTPSender

    init() throws {
        server = try WebServer { $1.answer(200) }
        sender = try HTTPSender(certificateAuthorityFile: server.certificateFile, userAgent: "bellwire-tests")
    }

    // MARK: Addresses

    @Test func aLoopbackAddressIsNotAskedUnlessItIsAllowed() throws {
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url()))
        #expect(outcome == .failed(reason: "127.0.0.1 is a loopback address", wasHandedOver: false))
        #expect(server.accepted == 0)
    }

    /// A reader of URLs that works like a browser takes all these hosts for 127.0.0.1.
    @Test(arguments: [
        "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "%31%32%37.0.0.1", "[::ffff:127.0.0.1]", "127.0.0.1.",
    ])
    func anotherWayToWriteALoopbackAddressIsNotAsked(host: String) throws {
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url(host: host)))
        #expect(!outcome.wasHandedOver)
        #expect(server.accepted == 0)
    }

    @Test func aNameThatLeadsToALoopbackAddressIsNotAsked() throws {
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url(host: "localhost")))
        #expect(try #require(outcome.reason).contains("1 is a loopback address"))
        #expect(!outcome.wasHandedOver)
        #expect(server.accepted == 0)
        let allowed = try sender.outcome(
            HTTPRequest(id: 2, url: server.url(host: "localhost"), allowed: .loopback))
        #expect(allowed.response?.status == 200)
    }

    @Test func aConnectionThatOthersMayUseIsJudgedAgain() throws {
        _ = try sender.outcome(HTTPRequest(id: 1, url: server.url("/one"), allowed: .loopback))
        let outcome = try sender.outcome(HTTPRequest(id: 2, url: server.url("/two")))
        #expect(outcome == .failed(reason: "127.0.0.1 is a loopback address", wasHandedOver: false))
        #expect(server.requests.map(\.path) == ["/one"])
        #expect(server.accepted == 1)
    }

    @Test func onlyThePortOfHTTPSIsAskedAtPublicAddresses() throws {
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: "https://1.1.1.1:8443/"))
        let reason = "1.1.1.1 may be asked at port 443 only, not at 8443"
        #expect(outcome == .failed(reason: reason, wasHandedOver: false))
    }

    @Test func aNameThatNobodyHasIsNotFound() throws {
        // By RFC 6761, section 6.4, this name is never found.
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: "https://bellwire.invalid/"))
        #expect(outcome == .failed(reason: "the host's name was not found", wasHandedOver: false))
    }

    @Test func aPortWhereNobodyListensIsSaidToBeOne() throws {
        // The port is taken, so that no other process is given it.
        let (descriptor, port) = boundSocket()
        defer { close(descriptor) }
        let url = "https://127.0.0.1:\(port)/"
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: url, allowed: .loopback))
        #expect(outcome == .failed(reason: "no connection: Connection refused", wasHandedOver: false))
    }

    // MARK: URLs and headers

    @Test(arguments: [
        ("http://example.com/secret", "the URL is not an https URL"),
        ("ftp://example.com/secret", "the URL is not an https URL"),
        ("file:///secret", "the URL is not an https URL"),
        ("example.com/secret", "the URL is not valid: "),
        ("", "the URL is not valid: "),
        ("https://", "the URL is not valid: "),
        ("https://exa{mple.com/secret", "the URL is not valid: "),
        ("https://example.com:99999/secret", "the URL is not valid: "),
        ("https://user@example.com/secret", "the URL has a user or a password"),
        ("https://user:secret@example.com/", "the URL has a user or a password"),
        ("https://example.com/secret\r\nX: y", "the URL has a character that is not printable ASCII"),
        ("https://example.com/secret\u{0}", "the URL has a character that is not printable ASCII"),
        ("https://example.com/sec ret", "the URL has a character that is not printable ASCII"),
        ("https://exämple.com/secret", "the URL has a character that is not printable ASCII"),
        ("https://example.com/secret" + String(repeating: "x", count: 4096), "the URL is longer than 4096 bytes"),
    ])
    func aURLThatIsNotAnHTTPSOneFailsAtOnce(url: String, reason: String) throws {
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: url, allowed: .loopback))
        #expect(!outcome.wasHandedOver)
        #expect(try #require(outcome.reason).hasPrefix(reason))
        #expect(outcome.reason?.contains("secret") == false)
    }

    @Test(arguments: [
        ("X-A", "secret\r\nX-B: c"), ("X-A", "secret\u{0}"), ("X-A\r\nX-B", "secret"), ("X A", "secret"),
        ("X-A:", "secret"), ("", "secret"), ("Host", "secret"), ("content-length", "secret"),
        ("Transfer-Encoding", "secret"),
    ])
    func aHeaderThatSaysMoreThanItselfFailsAtOnce(name: String, value: String) throws {
        let outcome = try sender.outcome(
            HTTPRequest(id: 1, url: server.url(), headers: [(name, value)], allowed: .loopback))
        #expect(outcome.reason?.contains("secret") == false)
        #expect(!outcome.wasHandedOver)
        #expect(server.accepted == 0)
    }

    @Test func whatCannotBeKeptFailsAtOnce() throws {
        var request = HTTPRequest(id: 1, method: .get, url: server.url(), body: [1], allowed: .loopback)
        #expect(try sender.outcome(request).reason == "GET has no body")
        request = HTTPRequest(id: 2, url: server.url(), allowed: .loopback)
        request.timeout = 0
        #expect(try sender.outcome(request).reason == "a timeout of 0 ms cannot be kept")
        #expect(server.accepted == 0)
    }

    // MARK: Certificates

    @Test func aServerThatNobodyVouchesForIsNotAsked() throws {
        let stranger = try WebServer { $1.answer(200) }
        let outcome = try sender.outcome(HTTPRequest(id: 1, url: stranger.url("/secret"), allowed: .loopback))
        #expect(try #require(outcome.reason).hasPrefix("the certificate is not to be trusted: self-signed certificate"))
        #expect(!outcome.wasHandedOver)
        #expect(stranger.requests.isEmpty)
        // The system's authorities do not know the certificate either.
        let other = try HTTPSender(userAgent: "bellwire-tests")
        #expect(try !other.outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback)).wasHandedOver)
    }

    @Test func aCertificateForAnotherHostIsNotTaken() throws {
        let certificate = try CertificateFiles("DNS:other.example")
        let server = try WebServer(certificate: certificate) { $1.answer(200) }
        let sender = try HTTPSender(certificateAuthorityFile: certificate.certificate, userAgent: "bellwire-tests")
        for host in ["127.0.0.1", "localhost"] {
            let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url(host: host), allowed: .loopback))
            #expect(!outcome.wasHandedOver)
            #expect(try #require(outcome.reason).hasPrefix("the certificate is not to be trusted: "), "\(outcome)")
        }
        #expect(server.requests.isEmpty)
    }

    @Test func aFileWithoutAuthoritiesMakesNoSender() {
        for file in ["/nowhere/ca.crt", "/dev/null"] {
            #expect(throws: HTTPSender.SetupError.self) {
                try HTTPSender(certificateAuthorityFile: file, userAgent: "bellwire-tests")
            }
        }
        #expect(throws: HTTPSender.SetupError.self) { try HTTPSender(userAgent: "a\r\nb") }
    }

    // MARK: The environment

    // These tests run in processes of their own: no other code may read the environment while a test changes it.

    @Test func proxiesInTheEnvironmentAreNotUsed() async {
        await #expect(processExitsWith: .success) {
            let proxy = Listener { _ in }
            for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
                setenv(name, "http://127.0.0.1:\(proxy.port)", 1)
            }
            let server = try WebServer { $1.answer(200) }
            let sender = try HTTPSender(certificateAuthorityFile: server.certificateFile, userAgent: "bellwire-tests")
            let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
            #expect(outcome.response?.status == 200)
            #expect(proxy.accepted == 0)
        }
    }

    /// The sender refuses such a server also where the system's settings would let OpenSSL speak old TLS.
    @Test func aServerOfOldTLSIsNotAsked() async {
        await #expect(processExitsWith: .success) {
            let certificate = try CertificateFiles()
            let settings = try TextFile(
                """
                openssl_conf = all
                [all]
                ssl_conf = uses
                [uses]
                system_default = weak
                [weak]
                MinProtocol = TLSv1
                CipherString = ALL:@SECLEVEL=0
                """)
            setenv("OPENSSL_CONF", settings.path, 1)
            let server = try WebServer(.old, certificate: certificate) { $1.answer(200) }
            let sender = try HTTPSender(certificateAuthorityFile: server.certificateFile, userAgent: "bellwire-tests")
            let outcome = try sender.outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
            #expect(outcome == .failed(reason: "TLS was not agreed on", wasHandedOver: false))
        }
    }
}
