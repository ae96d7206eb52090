import Testing

@testable import HTTPServing

/// The bounds of a server for its clients.
struct BoundsTests {
    private static let longestBody = 1_000
    private let settings = HTTPServerSettings.with { $0.longestBody = Self.longestBody }

    // MARK: Connections

    /// Each newcomer finds a place, and the connections go on that had a request last.
    @Test func atTheBoundTheConnectionGivesWayThatIdlesLongest() throws {
        let server = try HTTPServer.local(.with { $0.mostConnections = 3 })
        func ask(_ client: Client) throws {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
        }
        let clients = try (0..<3).map { _ in try Client(server.port) }
        for client in clients { try ask(client) }
        // The first connection was silent longest, and is so no longer.
        try ask(clients[0])
        let newcomer = try Client(server.port)
        try ask(newcomer)
        #expect(try clients[1].isClosed())
        try ask(clients[0])
        try ask(clients[2])
        try eventually { server.counts.open == 3 }
        #expect(server.counts.gaveWay == 1 && server.counts.refused == 0 && server.counts.late == 0)
        // Connections that never make a request give way to each other in the end.
        let silent = try (0..<50).map { _ in try Client(server.port) }
        let last = try Client(server.port)
        try ask(last)
        try eventually { server.counts.open == 3 && server.counts.gaveWay == 52 }
        #expect(try silent[0].isClosed())
    }

    /// While every connection has a request that is being served, no connection gives way: vital requests have places
    /// of their own.
    @Test func whatIsVitalIsServedAlsoWhenAllConnectionsAreBusy() throws {
        let desk = Desk()
        let settings = HTTPServerSettings.with {
            ($0.mostConnections, $0.mostReserved) = (2, 2)
            $0.isVital = { $1 == "/vital" }
        }
        let server = try HTTPServer.local(settings) { exchange in
            if exchange.path == "/vital" { return .text(200, "lives") }
            desk.put(exchange)
            return nil
        }
        let busy = try (0..<2).map { _ in try Client(server.port) }
        for client in busy { client.request("GET /") }
        let exchanges = try desk.take(2)
        // Silent connections in the reserved places give way, too.
        let silent = try (0..<5).map { _ in try Client(server.port) }
        let vital = try Client(server.port)
        for _ in 0..<2 {
            vital.request("GET /vital")
            #expect(try vital.response()?.text == "lives")
        }
        let refused = try Client(server.port)
        refused.request("GET /")
        let response = try #require(try refused.response())
        #expect(response.status == 503 && response.text == "too many connections\n")
        #expect(try refused.isClosed())
        #expect(server.counts.refused == 1)
        for exchange in exchanges { exchange.respond(.text(200, "done")) }
        for client in busy { #expect(try client.response()?.text == "done") }
        // There is a place again, also for a connection that came into a reserved place.
        let next = try Client(server.port)
        next.request("GET /vital")
        #expect(try next.response()?.status == 200)
        next.request("GET /")
        try desk.take(1)[0].respond(.text(200, "served"))
        #expect(try next.response()?.text == "served")
        withExtendedLifetime(silent) {}
    }

    /// A connection that came while all were busy takes the place of a connection that is at rest again.
    @Test func whoCameIntoAReservedPlaceIsServedWhenAnotherIsAtRest() throws {
        let desk = Desk()
        let settings = HTTPServerSettings.with {
            ($0.mostConnections, $0.mostReserved) = (1, 1)
            $0.isVital = { $1 == "/vital" }
        }
        let server = try HTTPServer.local(settings) { exchange in
            if exchange.path != "/" { return .text(200, exchange.path) }
            desk.put(exchange)
            return nil
        }
        let busy = try Client(server.port)
        busy.request("GET /")
        let exchange = try desk.take(1)[0]
        let late = try Client(server.port)
        late.request("GET /vital")
        #expect(try late.response()?.text == "/vital")
        exchange.respond(.text(200, "done"))
        #expect(try busy.response()?.text == "done")
        try eventually { server.counts.requests[.success] == 2 }
        late.request("GET /other")
        #expect(try late.response()?.text == "/other")
        #expect(try busy.isClosed())
        #expect(server.counts.refused == 0 && server.counts.gaveWay == 1)
    }

    @Test func withoutAReservedPlaceANewcomerIsClosedWhenAllAreBusy() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk, .with { ($0.mostConnections, $0.mostReserved) = (1, 0) })
        let busy = try Client(server.port)
        busy.request("GET /")
        let exchange = try desk.take(1)[0]
        #expect(try Client(server.port).isClosed())
        #expect(server.counts.refused == 1)
        exchange.respond(.text(200, "done"))
        #expect(try busy.response()?.text == "done")
    }

    @Test func anAddressHasSoManyConnections() throws {
        let server = try HTTPServer.local(.with { $0.mostPerAddress = 2 })
        let (first, second) = (try Client(server.port), try Client(server.port))
        for client in [second, first] {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
        }
        let third = try Client(server.port)
        third.request("GET /")
        #expect(try third.response()?.status == 200)
        #expect(try second.isClosed())
        try eventually { server.counts.open == 2 }
        #expect(server.counts.gaveWay == 1)
    }

    /// However many responses go on, requests get through.
    @Test func responsesThatGoOnTakeNoPlaceOfRequests() throws {
        let settings = HTTPServerSettings.with { ($0.mostConnections, $0.mostStreams, $0.mostReserved) = (1, 3, 0) }
        let server = try HTTPServer.local(settings) { exchange in
            guard exchange.path == "/stream" else { return .echo(exchange) }
            let stream = HTTPStream(mostWaiting: 100)
            _ = stream.send(Array("begun".utf8))
            return .streaming(stream, contentType: "text/event-stream")
        }
        let streams = try (0..<3).map { _ in
            let client = try Client(server.port)
            client.request("GET /stream")
            #expect(try client.read(to: "begun"))
            return client
        }
        let client = try Client(server.port)
        client.request("GET /")
        #expect(try client.response()?.status == 200)
        #expect(server.counts.open == 4 && server.counts.gaveWay == 0)
        withExtendedLifetime(streams) {}
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

    /// The server waits neither for a client that has announced a long body, nor for a client that asks whether it may
    /// send.
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

    /// The client would not see the answer if the server closed the connection before.
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
            // microhttpd makes a note of each cookie.
            case .cookies: ["Cookie: " + String(repeating: "x;", count: 1_000)]
            case .cookie: ["Cookie: " + String(repeating: "x", count: 20_000)]
            }
        }
    }

    @Test(arguments: LongHead.allCases) func aHeadThatIsTooLongIsRefused(head: LongHead) throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request(head.line, headers: head.fields)
        // The server closes the connection while the client still sends, so that the answer may be lost.
        let status = try client.response()?.status
        #expect(status == nil || status == (head == .path || head == .query ? 414 : 431))
        try client.readToEnd()
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 0)
    }

    /// For microhttpd alone these parameters would be too many: microhttpd would never answer.
    @Test func aQueryMayHaveManyParameters() throws {
        let server = try HTTPServer.local { .text(200, "\(RequestQuery.pairs($0.query)?.count ?? 0)") }
        let client = try Client(server.port)
        client.request("GET /?" + String(repeating: "a=b&", count: 5_000))
        #expect(try client.response()?.text == "5000")
    }

    /// microhttpd ends such a connection only because it runs on a thread of its own (MHD_USE_INTERNAL_POLLING_THREAD):
    /// in a caller's event loop, microhttpd would leave that to the caller.
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
