import Testing

@testable import HTTPServing

/// Requests that are not quite HTTP, and requests that other programs may read differently.
struct FramingTests {
    @Test(arguments: [
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505), ("GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505),
        ("GET / FTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET /\r\n\r\n", 400), ("GET\r\n\r\n", nil),
        ("\u{16}\u{3}\u{1}\r\n", nil),
        ("GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n", 400),
        ("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET /\u{7F} HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /ü HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 413),
    ])
    func whatIsNotHTTPIsRefused(request: String, status: Int?) throws {
        let server = try HTTPServer.local { _ in
            Issue.record("it was handled")
            return nil
        }
        let client = try Client(server.port)
        client.send(request)
        client.finish()
        #expect(try client.response()?.status == status)
        // microhttpd answers an invalid length twice, which is harmless on a connection that ends.
        try client.readToEnd()
    }

    /// microhttpd takes the first of several lengths, the chunks where a request has both, and all bytes up to the end
    /// of the connection where microhttpd does not know the coding. A proxy may do otherwise, and take a part of the
    /// first request for a second request.
    @Test(arguments: [
        (["Content-Length: 5", "Transfer-Encoding: chunked"], 400), (["Content-Length: 5", "Content-Length: 5"], 400),
        (["Content-Length: 5", "Content-Length: 6"], 400),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400), (["Transfer-Encoding: gzip"], 501),
        (["Transfer-Encoding: gzip, chunked"], 501), (["Transfer-Encoding: chunked, identity"], 501),
        (["Transfer-Encoding: chunked "], 501),
        (["Transfer-Encoding:\u{B}chunked"], 501), (["Transfer-Encoding: x"], 501),
        (["Transfer-Encoding :chunked"], 400),
    ])
    func aBodyWhoseEndIsInDoubtIsRefused(headers: [String], status: Int) throws {
        let server = try HTTPServer.local { _ in
            Issue.record("it was handled")
            return nil
        }
        let client = try Client(server.port)
        client.request("POST /", headers: headers)
        client.send("0\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try client.response()?.status == status)
        #expect(try client.isClosed())
    }

    /// Lines that no client should send and no proxy should pass on. The second line of a value is added to the
    /// header's name, and a header without a name ends the head.
    @Test(arguments: [
        ("X: a\r\n b", "[] [a] []"), ("X: a\r\n: b\r\nXb: c", "[a] [] []"), ("X:  a \r\nXb:c", "[a] [c] []"),
    ])
    func someLinesAreReadInAStrangeWay(lines: String, understood: String) throws {
        let server = try HTTPServer.local { exchange in
            .text(
                200, ["x", "xb", ""].map { "[\(exchange.header($0).joined(separator: ","))]" }.joined(separator: " "))
        }
        let client = try Client(server.port)
        client.request("GET /", headers: [lines])
        #expect(try client.response()?.text == understood)
    }
}
