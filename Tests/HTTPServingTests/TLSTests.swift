import FoundationEssentials
import Glibc
import HTTPSending
import Testing

@testable import HTTPServing

/// The server of HTTPS.
final class TLSTests {
    private let directory: String
    private let certificate: String
    private let key: String

    init() throws {
        var name = Array("/tmp/bellwire-serving-XXXXXX".utf8CString)
        directory = String(cString: try #require(mkdtemp(&name)))
        (certificate, key) = try Self.makeCertificate(directory)
    }

    deinit { _ = system("rm -r \(directory)") }

    private static func makeCertificate(_ directory: String) throws -> (String, String) {
        let status = system(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=server' "
                + "-addext 'subjectAltName=IP:127.0.0.1' "
                + "-keyout \(directory)/server.key -out \(directory)/server.crt 2>/dev/null")
        try #require(status == 0)
        return (
            try String(contentsOfFile: directory + "/server.crt", encoding: .utf8),
            try String(contentsOfFile: directory + "/server.key", encoding: .utf8)
        )
    }

    private struct Chain {
        let leaf: String
        let middle: String
        let root: String
        let key: String
    }

    /// Makes a root, an authority between, and the certificate of a server.
    private static func makeChain(_ directory: String) throws -> Chain {
        let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        let commands = [
            "openssl req -x509 \(new) -days 1 -subj /CN=root -keyout root.key -out root.crt",
            "openssl req \(new) -subj /CN=middle -keyout middle.key -out middle.csr",
            "echo basicConstraints=critical,CA:TRUE > middle.ext",
            "openssl x509 -req -in middle.csr -CA root.crt -CAkey root.key -CAcreateserial -days 1 "
                + "-extfile middle.ext -out middle.crt",
            "openssl req \(new) -subj /CN=leaf -keyout leaf.key -out leaf.csr",
            "openssl x509 -req -in leaf.csr -CA middle.crt -CAkey middle.key -CAcreateserial -days 1 -out leaf.crt",
        ]
        try #require(system("cd \(directory) && (\(commands.joined(separator: " && "))) >/dev/null 2>&1") == 0)
        func text(_ name: String) throws -> String {
            try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)
        }
        return Chain(
            leaf: try text("leaf.crt"), middle: try text("middle.crt"), root: try text("root.crt"),
            key: try text("leaf.key"))
    }

    private static func output(_ command: String) throws -> String {
        let pipe = try #require(popen(command, "r"))
        defer { pclose(pipe) }
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = fread(&bytes, 1, bytes.count, pipe)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    private static func fingerprint(ofFile path: String) throws -> String {
        try output("openssl x509 -in \(path) -noout -fingerprint -sha256")
    }

    private static func fingerprint(at port: Int) throws -> String {
        let seen = "openssl s_client -connect 127.0.0.1:\(port) </dev/null 2>/dev/null"
        return try output("\(seen) | openssl x509 -noout -fingerprint -sha256")
    }

    private func answer(of server: HTTPServer, to sender: HTTPSender) throws -> String? {
        let loopback = AddressRules(allowedNetworks: [try #require(Network("127.0.0.0/8"))])
        sender.send(HTTPRequest(id: 1, url: "https://127.0.0.1:\(server.port)/", body: [], allowed: loopback))
        var waiting = pollfd(fd: sender.descriptor, events: Int16(POLLIN), revents: 0)
        try #require(poll(&waiting, 1, 30_000) == 1)
        guard case .answered(let response) = sender.take().first?.outcome else { return nil }
        return String(decoding: response.body, as: UTF8.self)
    }

    private func server(_ certificates: String, _ key: String, longestTime: Int64 = 30_000) throws -> HTTPServer {
        try .local(
            .with { settings in
                settings.longestTime = longestTime
                settings.tls = .init(certificates: certificates, key: key)
            }
        ) { .text(200, "\($0.path) \($0.body.count)") }
    }

    @Test func aRequestIsAnswered() throws {
        let server = try server(certificate, key)
        let sender = try HTTPSender(certificateAuthorityFile: directory + "/server.crt", userAgent: "bellwire-tests")
        let loopback = AddressRules(allowedNetworks: [try #require(Network("127.0.0.0/8"))])
        for id: UInt64 in 1...3 {
            let url = "https://127.0.0.1:\(server.port)/a%2Fb"
            let body = [UInt8](repeating: 0x78, count: 60_000)
            sender.send(HTTPRequest(id: id, url: url, body: body, allowed: loopback))
            var waiting = pollfd(fd: sender.descriptor, events: Int16(POLLIN), revents: 0)
            try #require(poll(&waiting, 1, 30_000) == 1)
            guard case .answered(let response) = try #require(sender.take().first).outcome else {
                Issue.record("no response")
                return
            }
            #expect(response.status == 200)
            #expect(response.body == Array("/a%2Fb 60000".utf8))
        }
        try eventually { server.counts == HTTPServerCounts(open: 1, requests: [.success: 3]) }
    }

    /// The bytes come after a silence of the connection, and the end comes after the bytes.
    @Test func aResponseThatGoesOnArrives() throws {
        let stream = HTTPStream(mostWaiting: 1_024)
        let server = try HTTPServer.local(
            .with { [certificate, key] in $0.tls = .init(certificates: certificate, key: key) }
        ) { _ in .streaming(stream, contentType: "text/event-stream") }
        let sender = try HTTPSender(certificateAuthorityFile: directory + "/server.crt", userAgent: "bellwire-tests")
        let loopback = AddressRules(allowedNetworks: [try #require(Network("127.0.0.0/8"))])
        sender.send(HTTPRequest(id: 1, url: "https://127.0.0.1:\(server.port)/", body: [], allowed: loopback))
        for text in ["one", "two"] {
            #expect(stream.send(Array(text.utf8)))
            try eventually { stream.isSuspended }
        }
        stream.end()
        var waiting = pollfd(fd: sender.descriptor, events: Int16(POLLIN), revents: 0)
        try #require(poll(&waiting, 1, 30_000) == 1)
        guard case .answered(let response) = try #require(sender.take().first).outcome else {
            Issue.record("no response")
            return
        }
        #expect(response.body == Array("onetwo".utf8))
    }

    /// A connection that is open goes on, and a certificate that cannot be used changes nothing.
    @Test func theCertificateIsReplaced() throws {
        let server = try server(certificate, key)
        let before = try Self.fingerprint(ofFile: directory + "/server.crt")
        let sender = try HTTPSender(certificateAuthorityFile: directory + "/server.crt", userAgent: "bellwire-tests")
        #expect(try answer(of: server, to: sender) == "/ 0")
        #expect(try Self.fingerprint(at: server.port) == before)
        // The new certificate is in another folder: the sender would trust it if the former file were replaced.
        let elsewhere = directory + "/other"
        try #require(mkdir(elsewhere, 0o700) == 0)
        let (other, otherKey) = try Self.makeCertificate(elsewhere)
        let after = try Self.fingerprint(ofFile: elsewhere + "/server.crt")
        func replace(_ certificates: String, _ key: String) -> String? {
            HTTPServer.replaceCertificate(.init(certificates: certificates, key: key), at: [server])
        }
        #expect(replace(other, key) != nil, "another certificate's key")
        #expect(replace("none", otherKey) != nil)
        #expect(try Self.fingerprint(at: server.port) == before)
        #expect(replace(other, otherKey) == nil)
        #expect(try Self.fingerprint(at: server.port) == after)
        #expect(before != after)
        #expect(try answer(of: server, to: sender) == "/ 0", "the sender trusts the former certificate alone")
    }

    /// The server sends all certificates of a chain in their order, in whatever order the file has them.
    @Test func aChainIsSent() throws {
        let chain = try Self.makeChain(directory)
        for text in [chain.leaf + chain.middle, chain.leaf + chain.root + chain.middle] {
            let server = try server(text, chain.key)
            let status = system(
                "openssl s_client -connect 127.0.0.1:\(server.port) -CAfile \(directory)/root.crt "
                    + "-verify_return_error </dev/null >/dev/null 2>&1")
            #expect(status == 0)
        }
    }

    @Test func oldTLSIsNotSpoken() throws {
        let server = try server(certificate, key)
        func connect(_ version: String) -> Int32 {
            system(
                "openssl s_client -connect 127.0.0.1:\(server.port) \(version) -cipher ALL:@SECLEVEL=0 "
                    + "</dev/null >/dev/null 2>&1")
        }
        #expect(connect("-tls1_2") == 0)
        #expect(connect("-tls1_1") != 0)
        #expect(connect("-tls1") != 0)
    }

    @Test(arguments: ["", "\u{16}\u{3}\u{1}"]) func aHandshakeThatDoesNotEndIsGivenUp(begin: String) throws {
        let server = try server(certificate, key, longestTime: 300)
        let client = try Client(server.port)
        client.send(begin)
        #expect(try client.isClosed())
        #expect(server.counts.late == 1)
    }

    @Test func plainHTTPIsNotAnswered() throws {
        let server = try server(certificate, key)
        let client = try Client(server.port)
        client.request("GET /")
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 0)
        #expect(server.counts.requests.isEmpty)
    }

    @Test func aCertificateThatCannotBeUsedIsSaidToBeOne() throws {
        let (_, other) = try Self.makeCertificate(directory)
        let broken = certificate.replacing("M", with: "-")
        for (certificates, key) in [("", key), (certificate, ""), ("x", "y"), (certificate, other), (broken, key)] {
            let error = #expect(throws: HTTPServer.SetupError.self) { try server(certificates, key) }
            let text = try #require(error?.description)
            #expect(text.hasPrefix("127.0.0.1:0: no HTTPS with this certificate and key: "), "\(text)")
        }
    }
}
