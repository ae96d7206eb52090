import Testing

@testable import HTTPServing

/// What a server takes of its clients.
struct BoundsTests {
    private static let longestBody = 1_000
    private let settings = HTTPServerSettings.with { $0.longestBody = Self.longestBody }

    // MARK: Connections

    @Test func noMoreConnectionsAreKeptThanTheBound() throws {
        let server = try HTTPServer.local(.with { $0.mostConnections = 3 })
        var clients = try (0..<3).map { _ in try Client(server.port) }
        try eventually { server.counts.open == 3 }
        for _ in 0..<5 { #expect(try Client(server.port).isClosed()) }
        #expect(server.counts == HTTPServerCounts(open: 3, refused: 5))
        for client in clients {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
        }
        clients.removeLast()
        try eventually { server.counts.open == 2 }
        let next = try Client(server.port)
        next.request("GET /")
        #expect(try next.response()?.status == 200)
        #expect(server.counts.open == 3)
    }

    // MARK: Bodies

    @Test func aBodyMayBeAsLongAsTheBound() throws {
        let server = try HTTPServer.local(settings) { .text(200, "\($0.body.count)") }
        let client = try Client(server.port)
        let body = String(repeating: "x", count: Self.longestBody)
        client.request("POST /", body: body)
        #expect(try client.response()?.text == "1000")
        client.request("POST /", headers: ["Transfer-Encoding: chunked"])
        client.send("3e8\r\n\(body)\r\n0\r\n\r\n")
        #expect(try client.response()?.text == "1000")
    }

    /// A client that has announced much is not waited for, nor is one that asks whether it may send.
    @Test(arguments: [
        (["Content-Length: 1000000"], ""), (["Content-Length: 18446744073709551615"], ""),
        (["Content-Length: 1001", "Expect: 100-continue"], ""), (["Content-Length: 1000000"], "the beginning"),
    ])
    func aBodyThatWillBeTooLongIsRefusedAtOnce(headers: [String], sent: String) throws {
        let server = try HTTPServer.local(settings)
        let client = try Client(server.port)
        client.request("POST /", headers: headers)
        client.send(sent)
        let response = try #require(try client.response())
        #expect(response.status == 413)
        #expect(response.headers["connection"] == "close")
        #expect(try client.isClosed())
        #expect(server.counts.requests == [.clientError: 1])
    }

    /// It would not see the answer if the connection were closed before.
    @Test(arguments: [
        (["Content-Length: 1001"], "x", 1_001, ""), (["Content-Length: 200000"], "x", 200_000, ""),
        (["Transfer-Encoding: chunked"], "a\r\n0123456789\r\n", 101, "0\r\n\r\n"),
        (["Transfer-Encoding: chunked"], "a\r\n0123456789\r\n", 20_000, "0\r\n\r\n"),
    ])
    func aClientThatSendsTooMuchIsToldWhenItHasSentIt(headers: [String], piece: String, count: Int, end: String) throws
    {
        let server = try HTTPServer.local(settings)
        let client = try Client(server.port)
        client.request("POST /", headers: headers)
        client.send(String(repeating: piece, count: count) + end)
        let response = try #require(try client.response())
        #expect(response.status == 413)
        #expect(response.headers["connection"] == "close")
        #expect(try client.isClosed())
    }

    @Test func aBodyWithoutAnEndIsEnded() throws {
        let server = try HTTPServer.local(settings)
        let client = try Client(server.port)
        client.request("POST /", headers: ["Transfer-Encoding: chunked"])
        let chunk = "2710\r\n" + String(repeating: "x", count: 10_000) + "\r\n"
        var sent = 0
        while client.send(chunk) {
            sent += 1
            try #require(sent < 10_000)
        }
        try eventually { server.counts.requests == [.unanswered: 1] }
        #expect(server.counts.open == 0)
    }

    // MARK: Heads

    @Test func aHeadMayBeLong() throws {
        let server = try HTTPServer.local { .text(200, "\($0.header("x")[0].utf8.count)") }
        let client = try Client(server.port)
        for _ in 0..<2 {
            client.request("GET /", headers: ["X: " + String(repeating: "x", count: 28_000)])
            #expect(try client.response()?.text == "28000")
        }
    }

    enum LongHead: CaseIterable {
        case path, query, header, headers, cookies, cookie

        var line: String {
            switch self {
            case .path: "GET /" + String(repeating: "x", count: 40_000)
            case .query: "GET /?" + String(repeating: "x", count: 40_000)
            default: "GET /"
            }
        }

        var fields: [String] {
            switch self {
            case .path, .query: []
            case .header: ["X: " + String(repeating: "x", count: 40_000)]
            case .headers: [String](repeating: "X: y", count: 1_000)
            // microhttpd makes a note of each.
            case .cookies: ["Cookie: " + String(repeating: "x;", count: 1_000)]
            case .cookie: ["Cookie: " + String(repeating: "x", count: 20_000)]
            }
        }
    }

    @Test(arguments: LongHead.allCases) func aHeadThatIsTooLongIsRefused(head: LongHead) throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request(head.line, headers: head.fields)
        // It is closed under what is still being sent, and so the answer may be lost.
        let status = try client.response()?.status
        #expect(status == nil || status == (head == .path || head == .query ? 414 : 431))
        try client.readToEnd()
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 0)
    }

    /// For microhttpd alone these would be too many: it would never answer.
    @Test func aQueryMayHaveManyParameters() throws {
        let server = try HTTPServer.local { .text(200, "\(RequestQuery.pairs($0.query)?.count ?? 0)") }
        let client = try Client(server.port)
        client.request("GET /?" + String(repeating: "a=b&", count: 5_000))
        #expect(try client.response()?.text == "5000")
    }

    /// microhttpd would turn in circles over this one if its thread were not its own.
    @Test(arguments: ["1;", "", "5\r\nhello\r\n0\r\nX: "])
    func aLineWithoutAnEndInABodyIsRefused(begin: String) throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request("POST /", headers: ["Transfer-Encoding: chunked"])
        client.send(begin + String(repeating: "0", count: 100_000))
        _ = try client.response()
        try eventually { server.counts.open == 0 }
    }
}
