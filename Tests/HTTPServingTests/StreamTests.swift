import Synchronization
import Testing

@testable import HTTPServing

/// Responses that go on.
struct StreamTests {
    /// The streams that a server has opened, and how many of them are over.
    private final class Streams: Sendable {
        private let opened = Mutex<[HTTPStream]>([])
        private let over = Mutex(0)

        var endings: Int { over.withLock(\.self) }

        func open(mostWaiting: Int) -> HTTPStream {
            let stream = HTTPStream(mostWaiting: mostWaiting) { [self] in over.withLock { $0 += 1 } }
            opened.withLock { $0.append(stream) }
            return stream
        }

        func first() throws -> HTTPStream {
            try eventually { opened.withLock { !$0.isEmpty } }
            return opened.withLock { $0[0] }
        }
    }

    private let streams = Streams()

    private func server(
        _ settings: HTTPServerSettings = HTTPServerSettings(), mostWaiting: Int = 1_024
    ) throws -> HTTPServer {
        try HTTPServer.local(settings) { [streams] _ in
            .streaming(streams.open(mostWaiting: mostWaiting), contentType: "text/event-stream")
        }
    }

    private func listen(_ server: HTTPServer) throws -> (client: Client, stream: HTTPStream) {
        let client = try Client(server.port)
        client.request("GET /")
        return (client, try streams.first())
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func whatIsSentArrivesAtOnceAndTheEndEndsTheResponse() throws {
        let server = try server()
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("one")))
        #expect(try client.read(to: "Content-Type: text/event-stream\r\n"))
        #expect(try client.read(to: "\r\n\r\n3\r\none\r\n"))
        #expect(stream.send(bytes("two")) && stream.send(bytes("three")))
        #expect(try client.read(to: "two"))
        stream.end()
        #expect(!stream.send(bytes("four")))
        #expect(try client.read(to: "three\r\n0\r\n\r\n"))
        try eventually { streams.endings == 1 }
        // The server counts a request when it has closed the response.
        try eventually { server.counts.requests == [.success: 1] }
    }

    /// The other client shows that the time was over.
    @Test func silenceEndsNoStream() throws {
        let server = try server(.hasty)
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("one")))
        #expect(try client.read(to: "one"))
        let late = try Client(server.port)
        #expect(try late.isClosed())
        #expect(stream.send(bytes("two")))
        #expect(try client.read(to: "two"))
        #expect(streams.endings == 0 && server.counts.late == 1)
    }

    @Test func aClientThatGoesEndsItsStreamThoughItIsSilent() throws {
        let server = try server(.hasty)
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("one")))
        #expect(try client.read(to: "one"))
        client.reset()
        try eventually { streams.endings == 1 }
        #expect(!stream.send(bytes("two")))
    }

    @Test func whatTheClientsHostHasAcknowledgedHasArrived() throws {
        let server = try server(.hasty)
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("one")))
        #expect(try client.read(to: "one"))
        try eventually { stream.hasArrived }
        client.finish()
        try eventually { streams.endings == 1 }
        #expect(stream.hasArrived)
    }

    @Test func whatTheClientsHostHasNoRoomForHasNotArrived() throws {
        let server = try server(.hasty, mostWaiting: 8_000_000)
        let client = try Client(server.port, receiveBuffer: 4_096)
        client.request("GET /")
        let stream = try streams.first()
        #expect(stream.send([UInt8](repeating: 0, count: 8_000_000)) && !stream.hasArrived)
        try eventually { streams.endings == 1 }
        #expect(!stream.hasArrived)
    }

    @Test func aClientThatSaysGoodbyeEndsItsStream() throws {
        let server = try server(.hasty)
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("one")))
        #expect(try client.read(to: "one"))
        client.finish()
        try eventually { streams.endings == 1 }
        #expect(try !client.read(to: "never"))
    }

    @Test func moreThanMayWaitEndsTheStream() throws {
        let server = try server(.hasty, mostWaiting: 4)
        let (client, stream) = try listen(server)
        #expect(stream.send(bytes("four")))
        #expect(try client.read(to: "four"))
        #expect(!stream.send(bytes("fives")))
        try eventually { streams.endings == 1 }
        #expect(try !client.read(to: "five"))
    }

    @Test func aClientThatDoesNotReadIsDropped() throws {
        let server = try server(.hasty, mostWaiting: 8_000_000)
        let client = try Client(server.port, receiveBuffer: 4_096)
        client.request("GET /")
        #expect(try streams.first().send([UInt8](repeating: 0, count: 8_000_000)))
        try eventually { streams.endings == 1 }
        #expect(server.counts.requests == [.unanswered: 1])
    }

    @Test func aServerThatStopsEndsItsStreams() throws {
        let server = try server()
        let clients = try (0..<5).map { _ in try Client(server.port) }
        for client in clients { client.request("GET /") }
        try eventually { server.counts.open == 5 && (try? streams.first()) != nil }
        server.stop()
        for client in clients { try client.readToEnd() }
        try eventually { streams.endings >= 1 }
    }

    @Test func aHeadHasNoStream() throws {
        let server = try server()
        let client = try Client(server.port)
        client.request("HEAD /")
        #expect(try client.response(hasBody: false)?.status == 200)
        try eventually { streams.endings == 1 }
    }

    /// Another answer has come first.
    @Test func aStreamThatIsNoAnswerIsOver() throws {
        let desk = Desk()
        let server = try HTTPServer.waiting(at: desk)
        let client = try Client(server.port)
        client.request("GET /")
        let exchange = try desk.take(1)[0]
        exchange.respond(.text(200, "first"))
        exchange.respond(.streaming(streams.open(mostWaiting: 1), contentType: "text/event-stream"))
        #expect(try client.response()?.text == "first")
        #expect(streams.endings == 1)
    }
}
