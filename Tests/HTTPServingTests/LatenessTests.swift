import Glibc
import Support
import Testing

@testable import HTTPServing

/// Clients that take their time, and clients that are gone.
struct LatenessTests {
    /// Sends a piece every 20 ms until the other side has gone; returns how many milliseconds that took.
    private func trickle(_ client: Client, _ begin: String, _ piece: String) throws -> Int64 {
        let start = SystemClock.boot.milliseconds
        client.send(begin)
        while client.send(piece) {
            try #require(SystemClock.boot.milliseconds - start < 30_000)
            usleep(20_000)
        }
        return SystemClock.boot.milliseconds - start
    }

    // MARK: Requests

    @Test(arguments: [
        ("", ""), ("GET / HT", ""), ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", ""),
        ("", "x"), ("", "\r\n"), ("GET / HTTP/1.1\r\nHost: x\r\n", "X: y\r\n"),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", "x"),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
    ])
    func aRequestThatIsNotWholeInTimeIsGivenUp(begin: String, piece: String) throws {
        let server = try HTTPServer.local(.hasty)
        let client = try Client(server.port)
        if piece.isEmpty {
            client.send(begin)
            while try client.response() != nil {}
        } else {
            #expect(try trickle(client, begin, piece) >= 300)
        }
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 1)
    }

    @Test func aConnectionThatIsUsedIsKept() throws {
        let server = try HTTPServer.local(.with { $0.longestTime = 600 })
        let client = try Client(server.port)
        let end = SystemClock.boot.milliseconds + 1_500
        while SystemClock.boot.milliseconds < end {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
            usleep(50_000)
        }
        #expect(server.counts.late == 0)
    }

    /// Load balancers keep connections for a minute, and answer 502 when the server closes a connection in use.
    @Test func aConnectionThatAsksNothingIsKeptLongerAndIsNotLate() throws {
        #expect(HTTPServerSettings().longestIdle > 60_000)
        let server = try HTTPServer.local(.with { ($0.longestTime, $0.longestIdle) = (300, 1_500) })
        let client = try Client(server.port)
        for _ in 0..<2 {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
            usleep(900_000)
        }
        let start = SystemClock.boot.milliseconds
        #expect(try client.isClosed())
        #expect((200...2_500).contains(SystemClock.boot.milliseconds - start))
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 0)
    }

    /// As soon as the connection has a request, it has no more time than others.
    @Test func aConnectionThatWasIdleMustFinishWhatItBegins() throws {
        let server = try HTTPServer.local(.with { ($0.longestTime, $0.longestIdle) = (300, 60_000) })
        let client = try Client(server.port)
        client.request("GET /")
        #expect(try client.response()?.status == 200)
        #expect(try trickle(client, "GET / HTTP/1.1\r\nHost: x\r\n", "X: y\r\n") < 20_000)
        try eventually { server.counts.open == 0 }
        #expect(server.counts.late == 1)
    }

    // MARK: Responses

    @Test func whatNobodyAnswersIsAnsweredInTime() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk, .with { $0.longestTime = 600 })
        let client = try Client(server.port)
        let start = SystemClock.boot.milliseconds
        client.request("GET /")
        let response = try #require(try client.response())
        #expect(SystemClock.boot.milliseconds - start >= 600)
        #expect(response.status == 503)
        #expect(response.text == "no answer in time\n")
        try desk.take(1)[0].respond(.text(200, "too late"))
        // The client has kept its time, and may go on.
        client.request("GET /")
        try desk.take(1)[0].respond(.text(200, "in time"))
        #expect(try client.response()?.text == "in time")
    }

    @Test func aClientThatDoesNotReadIsGivenUp() throws {
        let server = try HTTPServer.local(.hasty) { _ in
            HTTPResponse(200, body: [UInt8](repeating: 0, count: 32_000_000))
        }
        let client = try Client(server.port, receiveBuffer: 4_096)
        client.request("GET /")
        try eventually { server.counts.late == 1 && server.counts.open == 0 }
        #expect(server.counts.requests == [.unanswered: 1])
    }

    @Test(arguments: [false, true]) func aClientThatSaysNothingMoreIsAnswered(isLate: Bool) throws {
        let desk = Desk()
        let body = [UInt8](repeating: 1, count: 4_000_000)
        let server = try HTTPServer.local(.with { $0.longestTime = 1_000 }) { exchange in
            if !isLate { return HTTPResponse(200, body: body) }
            desk.put(exchange)
            return nil
        }
        let client = try Client(server.port)
        client.request("GET /")
        client.finish()
        if isLate { try desk.take(1)[0].respond(HTTPResponse(200, body: body)) }
        #expect(try client.response()?.body == body)
        // microhttpd does not see the client's end when the end arrives together with the request: then the connection
        // ends as an idle connection.
        #expect(try client.isClosed())
    }

    @Test func aClientThatIsGoneWhenItsAnswerComesHurtsNobody() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk)
        for _ in 0..<20 {
            let clients = try (0..<4).map { _ in try Client(server.port) }
            for client in clients { client.request("GET /") }
            let exchanges = try desk.take(clients.count)
            for client in clients { client.reset() }
            for exchange in exchanges { exchange.respond(.text(200, "to nobody")) }
        }
        try eventually { server.counts.open == 0 }
        let client = try Client(server.port)
        client.request("GET /")
        try desk.take(1)[0].respond(.text(200, "done"))
        #expect(try client.response()?.text == "done")
    }

    // MARK: Many

    @Test func aThousandIdleConnectionsCostOthersNothing() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = min(limit.rlim_max, max(limit.rlim_cur, 4_096))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let server = try HTTPServer.local()
        let idle = try (0..<1_000).map { _ in try Client(server.port) }
        try eventually { server.counts.open == idle.count }
        let client = try Client(server.port)
        let start = SystemClock.boot.milliseconds
        for _ in 0..<100 {
            client.request("GET /")
            #expect(try client.response()?.status == 200)
        }
        #expect(SystemClock.boot.milliseconds - start < 2_000)
        #expect(server.counts.open == 1_001)
    }

    /// Descriptors are used again as soon as they are closed.
    @Test func onlyThoseWhoAreLateAreEnded() throws {
        let server = try HTTPServer.local(.with { $0.longestTime = 200 })
        let idlers = (0..<2).map { _ in
            startThread {
                for _ in 0..<10 {
                    let idle = (0..<8).map { _ in try? Client(server.port) }
                    usleep(UInt32.random(in: 160_000...260_000))
                    withExtendedLifetime(idle) {}
                }
            }
        }
        for _ in 0..<1_000 {
            let client = try Client(server.port)
            client.request("GET /")
            #expect(try client.response()?.status == 200)
        }
        for idler in idlers { pthread_join(try #require(idler), nil) }
        #expect(server.counts.late > 0)
        try eventually { server.counts.requests == [.success: 1_000] }
    }
}
