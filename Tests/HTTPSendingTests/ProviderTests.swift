import Glibc
import Support
import Testing

@testable import HTTPSending

/// Requests to servers that the operator named, and requests that leave in time or not at all.
struct ProviderTests {
    private func request(_ id: UInt64, _ url: String, before: Int64? = nil) -> HTTPRequest {
        var request = HTTPRequest(id: id, url: url, body: [1, 2, 3])
        request.isToProvider = true
        request.handOverBefore = before.map { SystemClock.boot.milliseconds + $0 }
        return request
    }

    private func sender(_ certificateFile: String) throws -> HTTPSender {
        try HTTPSender(certificateAuthorityFile: certificateFile, userAgent: "bellwire-tests")
    }

    @Test func aProviderMayBeAtAnyAddressAndPort() throws {
        let server = try WebServer { $1.answer(200) }
        #expect(try sender(server.certificateFile).outcome(request(1, server.url())).response?.status == 200)
    }

    @Test func aProviderIsAskedOverHTTPSOnly() throws {
        let sender = try HTTPSender(userAgent: "bellwire-tests")
        let outcome = try sender.outcome(request(1, "http://127.0.0.1/"))
        #expect(outcome == .failed(reason: "the URL is not an https URL", wasHandedOver: false))
    }

    @Test func aHundredAtOnceShareTheFirstConnection() throws {
        // The server answers no request before a hundred requests are there.
        let server = try HTTP2Server(answersAfter: [100, 50])
        let sender = try sender(server.certificateFile)
        for id in UInt64(0)..<150 { sender.send(request(id, server.url)) }
        let answers = try sender.answers(150)
        #expect(answers.allSatisfy { $0.outcome.response?.status == 200 })
        #expect(server.accepted == 1)
    }

    @Test func aProviderThatSpeaksHTTP1HasAConnectionForEach() throws {
        let gate = Gate()
        let server = try WebServer { _, connection in
            gate.wait()
            connection.answer(200)
        }
        let sender = try sender(server.certificateFile)
        for id in UInt64(0)..<20 { sender.send(request(id, server.url())) }
        try eventually { server.requests.count == 20 }
        gate.open()
        #expect(try sender.answers(20).allSatisfy { $0.outcome.response?.status == 200 })
    }

    @Test func whoWaitsForAHandshakeIsGivenUpInTime() throws {
        let gate = Gate()
        let listener = Listener { _ in gate.wait() }
        let sender = try HTTPSender(userAgent: "bellwire-tests")
        for id in UInt64(0)..<5 {
            var request = request(id, "https://127.0.0.1:\(listener.port)/")
            request.timeout = 400
            sender.send(request)
        }
        let answers = try sender.answers(5)
        let expected = HTTPAnswer.Outcome.failed(reason: "no connection within 400 ms", wasHandedOver: false)
        #expect(answers.allSatisfy { $0.outcome == expected && $0.took < 5_000 })
        #expect(sender.counts == (0, 0))
        gate.open()
    }

    // MARK: Handed over in time

    @Test func whatIsLateAlreadyDoesNotLeave() throws {
        let server = try WebServer { $1.answer(200) }
        let sender = try sender(server.certificateFile)
        #expect(try sender.outcome(request(1, server.url(), before: 0)) == .notHandedOver)
        var stranger = HTTPRequest(id: 2, url: server.url(), allowed: .loopback)
        stranger.handOverBefore = SystemClock.boot.milliseconds - 1
        #expect(try sender.outcome(stranger) == .notHandedOver)
        #expect(server.accepted == 0)
        #expect(try sender.outcome(request(3, server.url(), before: 20_000)).response?.status == 200)
    }

    @Test func whoseTurnComesTooLateDoesNotLeave() throws {
        let gate = Gate()
        let server = try WebServer { _, connection in
            gate.wait()
            connection.answer(200)
        }
        let sender = try sender(server.certificateFile)
        for id in UInt64(0)..<10 { sender.send(HTTPRequest(id: id, url: server.url(), allowed: .loopback)) }
        try eventually { server.requests.count == 10 }
        var late = HTTPRequest(id: 10, url: server.url(), allowed: .loopback)
        late.handOverBefore = SystemClock.boot.milliseconds + 50
        #expect(try sender.outcome(late, within: 5_000) == .notHandedOver)
        gate.open()
        _ = try sender.answers(10)
        #expect(server.requests.count == 10)
    }

    @Test func whoseConnectionComesTooLateDoesNotLeaveAndTheConnectionOfHTTP2IsKept() throws {
        let gate = Gate()
        let server = try HTTP2Server(answersAfter: Array(repeating: 1, count: 4)) { gate.wait() }
        let sender = try sender(server.certificateFile)
        sender.send(request(0, server.url, before: 100))
        sender.send(request(1, server.url, before: 100))
        sender.send(request(2, server.url))
        try eventually { server.accepted == 1 }
        usleep(150_000)
        gate.open()
        let answers = try sender.answers(3)
        #expect(answers.filter { $0.id < 2 }.allSatisfy { $0.outcome == .notHandedOver && $0.took >= 100 })
        #expect(answers.first { $0.id == 2 }?.outcome.response?.status == 200)
        for id in UInt64(3)..<6 { sender.send(request(id, server.url, before: 10_000)) }
        #expect(try sender.answers(3).allSatisfy { $0.outcome.response?.status == 200 })
        #expect(server.accepted == 1)
    }

    /// Curl closes the connection of a late request, so that without help the next request would be late as well, for
    /// ever.
    @Test(arguments: [true, false])
    func aServerOfHTTP1ThatShakesHandsSlowlyIsReachedAllTheSame(isProvider: Bool) throws {
        let server = try WebServer(isReady: { usleep(150_000) }) { $1.answer(200) }
        let sender = try sender(server.certificateFile)
        #expect(try lateOutcomes(sender, server.url("/push"), isProvider: isProvider) < 20)
        #expect(server.requests.filter { $0.path == "/push" }.count == 1)
        #expect(server.requests.allSatisfy { $0.path == "/push" || $0.line == "HEAD / HTTP/1.1" })
    }

    @Test func aLateRequestLeavesItsConnectionOfHTTP2ToTheNextOne() throws {
        let server = try HTTP2Server(answersAfter: Array(repeating: 1, count: 50)) { usleep(150_000) }
        let sender = try sender(server.certificateFile)
        #expect(try (1..<20).contains(lateOutcomes(sender, server.url, isProvider: true)))
        #expect(try lateOutcomes(sender, server.url, isProvider: true) == 0)
        #expect(server.accepted == 1)
    }

    /// Returns how many requests were late before a request left, at most 20.
    private func lateOutcomes(_ sender: HTTPSender, _ url: String, isProvider: Bool) throws -> Int {
        for id in 0..<20 {
            var request = request(UInt64(id), url, before: 100)
            request.isToProvider = isProvider
            request.allowed = .loopback
            let outcome = try sender.outcome(request)
            if outcome == .notHandedOver { continue }
            #expect(outcome.response?.status == 200)
            return id
        }
        return 20
    }

    // MARK: Connections

    /// The server may have forgotten the connection: other requests would wait there in vain.
    @Test func aConnectionWithoutAnAnswerInTimeTakesNoMore() throws {
        let server = try HTTP2Server(answersAfter: [2])
        let sender = try sender(server.certificateFile)
        var silent = request(0, server.url)
        silent.timeout = 300
        let outcome = try sender.outcome(silent)
        #expect(outcome == .failed(reason: "no whole answer within 300 ms", wasHandedOver: true))
        sender.send(request(1, server.url))
        sender.send(request(2, server.url))
        #expect(try sender.answers(2).allSatisfy { $0.outcome.response?.status == 200 })
        #expect(server.accepted == 2)
    }
}
