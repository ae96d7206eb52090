import Synchronization
import Testing

@testable import HTTPServing

struct HTTPServerTests {
    // MARK: Requests

    @Test func aRequestIsHandledAsItWasSent() throws {
        let seen = Mutex<HTTPExchange?>(nil)
        let server = try HTTPServer.local { exchange in
            seen.withLock { $0 = exchange }
            return .text(201, "done", headers: [.init("X-One", "1")])
        }
        let client = try Client(server.port)
        client.request(
            "PUT /calls/a%2Fb/%C3%BC?x=%20y&z", headers: ["X-Twice: one", "x-twice: two", "Other: üÿ"], body: "hello")
        let response = try #require(try client.response())
        #expect(response.status == 201)
        #expect(response.text == "done")
        #expect(response.headers["content-type"] == "text/plain; charset=utf-8")
        #expect(response.headers["x-one"] == "1")
        let exchange = try #require(seen.withLock { $0 })
        #expect(exchange.method == "PUT")
        #expect(exchange.path == "/calls/a%2Fb/%C3%BC")
        #expect(exchange.query == "x=%20y&z")
        #expect(exchange.header("X-TWICE") == ["one", "two"])
        #expect(exchange.header("other") == ["üÿ"])
        #expect(exchange.header("none").isEmpty)
        #expect(exchange.body == Array("hello".utf8))
    }

    @Test func aChunkedBodyIsPutTogether() throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request("POST /", headers: ["Transfer-Encoding: chunked", "Trailer: X"])
        client.send("3;note=x\r\nabc\r\n")
        client.send("2\r\nde\r\n0\r\nX: y\r\n\r\n")
        #expect(try client.response()?.text == "POST / ? abcde")
    }

    @Test func aClientThatAsksForLeaveToSendGetsIt() throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request("POST /", headers: ["Content-Length: 5", "Expect: 100-continue"])
        #expect(try client.response()?.status == 100)
        client.send("hello")
        #expect(try client.response()?.text == "POST / ? hello")
    }

    @Test func requestsOnOneConnectionAreAnsweredInTheirOrder() throws {
        let desk = Desk()
        let server = try HTTPServer.local { exchange in
            if exchange.path != "/later" { return .echo(exchange) }
            desk.put(exchange)
            return nil
        }
        let client = try Client(server.port)
        client.send(
            "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /later HTTP/1.1\r\nHost: x\r\n\r\n"
                + "POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nabGET /4 HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try client.response()?.text == "GET /1 ? ")
        try desk.take(1)[0].respond(.text(200, "late"))
        #expect(try client.response()?.text == "late")
        #expect(try client.response()?.text == "POST /3 ? ab")
        #expect(try client.response()?.text == "GET /4 ? ")
        #expect(server.counts.open == 1)
    }

    // MARK: Responses

    @Test func aRequestForTheHeadGetsNoBody() throws {
        let server = try HTTPServer.local()
        let client = try Client(server.port)
        client.request("HEAD /")
        let response = try #require(try client.response(hasBody: false))
        #expect(response.status == 200)
        #expect(response.headers["content-length"] == "9")
        client.request("GET /next")
        #expect(try client.response()?.text == "GET /next ? ")
    }

    @Test(arguments: [204, 304]) func aStatusWithoutABodyHasNone(status: Int) throws {
        let server = try HTTPServer.local { _ in HTTPResponse(status) }
        let client = try Client(server.port)
        for _ in 0..<2 {
            client.request("GET /")
            #expect(try client.response()?.status == status)
        }
    }

    @Test(arguments: [("X-A", "a\r\nX-B: b"), ("X A", "a"), ("", "a"), ("X-A", ""), ("Content-Length", "3")])
    func aHeaderThatCannotBeSentIsAnError(name: String, value: String) throws {
        let server = try HTTPServer.local { _ in .text(200, "secret", headers: [.init(name, value)]) }
        let client = try Client(server.port)
        client.request("GET /")
        let response = try #require(try client.response())
        #expect(response.status == 500)
        #expect(response.text == "the response cannot be sent\n")
        #expect(response.headers["x-b"] == nil)
    }

    @Test func aLargeResponseArrivesWhole() throws {
        let body = (0..<4_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 8) }
        let server = try HTTPServer.local { _ in HTTPResponse(200, body: body) }
        let client = try Client(server.port)
        for _ in 0..<2 {
            client.request("GET /")
            #expect(try client.response()?.body == body)
        }
    }

    // MARK: Answers that come later

    @Test func aRequestIsAnsweredLaterByAnyThread() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk)
        let clients = try (0..<10).map { _ in try Client(server.port) }
        for round in 0..<20 {
            for (index, client) in clients.enumerated() { client.request("GET /\(round)/\(index)") }
            for exchange in try desk.take(clients.count).reversed() { exchange.respond(.echo(exchange)) }
            for (index, client) in clients.enumerated() {
                #expect(try client.response()?.text == "GET /\(round)/\(index) ? ")
            }
        }
        try eventually { server.counts == HTTPServerCounts(open: 10, requests: [.success: 200]) }
    }

    @Test func onlyTheFirstAnswerCounts() throws {
        let desk = Desk()
        let server = try HTTPServer.local { exchange in
            exchange.respond(.text(200, "first"))
            exchange.respond(.text(200, "second"))
            desk.put(exchange)
            return .text(200, "third")
        }
        let client = try Client(server.port)
        for _ in 0..<3 {
            client.request("GET /")
            #expect(try client.response()?.text == "first")
            try desk.take(1)[0].respond(.text(200, "fourth"))
        }
    }

    /// The answer may come before the handler has returned, while the handler returns, or afterwards.
    @Test func anAnswerFromAnotherThreadComesWheneverItLikes() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk)
        let client = try Client(server.port)
        for _ in 0..<500 {
            client.request("GET /")
            try desk.take(1)[0].respond(.text(200, "done"))
            #expect(try client.response()?.text == "done")
        }
    }
}
