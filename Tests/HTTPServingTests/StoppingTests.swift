import Glibc
import Support
import Testing

@testable import HTTPServing

/// How a server ends, and when no server can start.
struct StoppingTests {
    @Test func whoWaitsWhenTheServerStopsIsTold() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk)
        let clients = try (0..<5).map { _ in try Client(server.port) }
        for client in clients { client.request("GET /") }
        let exchanges = try desk.take(5)
        exchanges[0].respond(.text(200, "just in time"))
        server.stop()
        for exchange in exchanges { exchange.respond(.text(200, "too late")) }
        #expect(try clients[0].response()?.text == "just in time")
        for client in clients.dropFirst() {
            let response = try #require(try client.response())
            #expect(response.status == 503)
            #expect(response.text == "the server stops\n")
            #expect(try client.isClosed())
        }
        server.stop()
        #expect(server.counts == HTTPServerCounts(requests: [.success: 1, .serverError: 4]))
        // The port is free again.
        _ = try HTTPServer(host: "127.0.0.1", port: server.port) { .echo($0) }
    }

    @Test func answersMayComeWhileTheServerStops() throws {
        for _ in 0..<20 {
            let desk = Desk()
            let server = try HTTPServer.waiting(at: desk)
            let clients = try (0..<8).map { _ in try Client(server.port) }
            for client in clients { client.request("GET /") }
            let exchanges = try desk.take(8)
            let stopping = try #require(startThread { server.stop() })
            for exchange in exchanges { exchange.respond(.text(200, "done")) }
            pthread_join(stopping, nil)
            for client in clients { #expect(try client.response() != nil) }
        }
    }

    @Test func aClientThatDoesNotReadDoesNotHoldUpTheEnd() throws {
        let server = try HTTPServer.local { _ in HTTPResponse(200, body: [UInt8](repeating: 0, count: 32_000_000)) }
        let client = try Client(server.port, receiveBuffer: 4_096)
        client.request("GET /")
        // The response has begun.
        try client.waitForBytes()
        let start = SystemClock.boot.milliseconds
        server.stop()
        #expect((1_000..<10_000).contains(SystemClock.boot.milliseconds - start))
        #expect(server.counts == HTTPServerCounts(requests: [.unanswered: 1]))
    }

    @Test func aPortThatIsTakenIsSaidToBe() throws {
        let server = try HTTPServer.local()
        let error = #expect(throws: HTTPServer.SetupError.self) {
            try HTTPServer(host: "127.0.0.1", port: server.port) { .echo($0) }
        }
        #expect(error?.description == "127.0.0.1:\(server.port): Address already in use")
        let other = #expect(throws: HTTPServer.SetupError.self) {
            try HTTPServer(host: "bellwire.invalid", port: 0) { .echo($0) }
        }
        #expect(other?.description.hasPrefix("bellwire.invalid:0: ") == true)
    }
}
