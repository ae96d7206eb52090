import Glibc
import Synchronization
import Testing

@testable import HTTPSending

/// Requests to servers of our own, at a loopback address that the rules allow.
struct HTTPSenderTests {
    private func sender(for server: WebServer) throws -> HTTPSender {
        try HTTPSender(certificateAuthorityFile: server.certificateFile, userAgent: "bellwire-tests")
    }

    @Test func whatIsPostedArrivesAndWhatIsAnsweredComesBack() throws {
        let server = try WebServer { $1.answer(201, "hello") }
        let sender = try sender(for: server)
        sender.send(
            HTTPRequest(
                id: 7, url: server.url("/hook?key=1"),
                headers: [("Content-Type", "application/json"), ("X-Empty", ""), ("x-sign", "a: b")],
                body: Array("{}".utf8), allowed: .loopback))
        let answer = try sender.answers(1)[0]
        #expect(answer.id == 7)
        #expect(answer.outcome == .answered(.init(status: 201, retryAfter: nil, body: Array("hello".utf8))))
        #expect((0..<10_000).contains(answer.took))
        let request = try #require(server.requests.first)
        #expect(request.line == "POST /hook?key=1 HTTP/1.1")
        #expect(request.body == Array("{}".utf8))
        let expected = [
            "host": "127.0.0.1:\(server.port)", "user-agent": "bellwire-tests", "accept": "*/*", "x-empty": "",
            "content-type": "application/json", "x-sign": "a: b", "content-length": "2",
        ]
        #expect(request.headers == expected)
        #expect(sender.take().isEmpty)
    }

    @Test(arguments: [HTTPRequest.Method.get, .delete, .post])
    func aRequestWithoutABodyHasNone(method: HTTPRequest.Method) throws {
        let server = try WebServer { $1.answer(204) }
        let sender = try sender(for: server)
        let request = HTTPRequest(id: 1, method: method, url: server.url("/a"), allowed: .loopback)
        #expect(try sender.outcome(request).response?.status == 204)
        #expect(server.requests.map(\.line) == ["\(method.rawValue) /a HTTP/1.1"])
        #expect(server.requests.map { $0.headers["content-length"] ?? "0" } == ["0"])
        #expect(server.requests.map { $0.headers["content-type"] } == [nil])
    }

    @Test func largeBodiesGoWithoutAskingFirst() throws {
        let server = try WebServer { $1.answer(200) }
        let sender = try sender(for: server)
        let body = [UInt8](repeating: 0, count: 2_000_000)
        let request = HTTPRequest(id: 1, method: .delete, url: server.url(), body: body, allowed: .loopback)
        #expect(try sender.outcome(request).response?.status == 200)
        #expect(server.requests.map(\.body) == [body])
        #expect(server.requests.map { $0.headers["expect"] } == [nil])
    }

    @Test func connectionsAreKeptForTheNextRequest() throws {
        let server = try WebServer { $1.answer(200) }
        let sender = try sender(for: server)
        for id in UInt64(0)..<3 { _ = try sender.outcome(HTTPRequest(id: id, url: server.url(), allowed: .loopback)) }
        #expect(server.requests.count == 3)
        #expect(server.accepted == 1)
    }

    @Test func aRequestIsSentAgainWhenTheConnectionThatWasKeptEndsWithoutAnAnswer() throws {
        final class Counter: Sendable {
            let value = Mutex(0)
        }
        let requests = Counter()
        let server = try TLSServer { connection in
            while connection.readHead() != nil {
                let isSecond = requests.value.withLock { value in
                    value += 1
                    return value == 2
                }
                if isSecond { return }
                connection.answer(200)
            }
        }
        let file = server.certificate.certificate
        let sender = try HTTPSender(certificateAuthorityFile: file, userAgent: "bellwire-tests")
        for id in UInt64(0)..<2 {
            let request = HTTPRequest(id: id, url: "https://127.0.0.1:\(server.port)/", allowed: .loopback)
            #expect(try sender.outcome(request).response?.status == 200)
        }
        #expect(requests.value.withLock { $0 } == 3)
        #expect(server.accepted == 2)
    }

    // MARK: The content of the answer

    @Test(arguments: [
        ("Retry-After: 120", 120), ("retry-after: 5", 5), ("Retry-After: 99999999999", 86_400),
        ("Retry-After: Fri, 31 Dec 2100 23:59:59 GMT", 86_400), ("Retry-After: 0", nil), ("Retry-After: -5", nil),
        ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", nil), ("Retry-After: soon", nil), ("X-Other: 7", nil),
    ])
    func theTimeToWaitIsReadAndBounded(header: String, seconds: Int?) throws {
        let server = try WebServer { $1.answer(503, headers: [header]) }
        let outcome = try sender(for: server).outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
        #expect(outcome.response == .init(status: 503, retryAfter: seconds, body: []))
    }

    @Test func aDateToWaitForIsTheSecondsUntilThen() throws {
        var then = time(nil) + 60
        var fields = tm()
        gmtime_r(&then, &fields)
        var text = [CChar](repeating: 0, count: 64)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &fields)
        let date = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let server = try WebServer { $1.answer(429, headers: ["Retry-After: \(date)"]) }
        let outcome = try sender(for: server).outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
        #expect((1...60).contains(try #require(outcome.response?.retryAfter)))
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func aRedirectIsAnAnswerAndNotFollowed(status: Int) throws {
        let server = try WebServer { $1.answer(status, headers: ["Location: /elsewhere"]) }
        let outcome = try sender(for: server).outcome(HTTPRequest(id: 1, url: server.url("/here"), allowed: .loopback))
        #expect(outcome.response?.status == status)
        #expect(server.requests.map(\.path) == ["/here"])
    }

    @Test func whatAnAnswerAsksToBeKeptIsForgotten() throws {
        let headers = ["Set-Cookie: a=b; Path=/", "Strict-Transport-Security: max-age=99", "Alt-Svc: h2=\":1\"; ma=99"]
        let server = try WebServer { $1.answer(401, headers: headers + ["WWW-Authenticate: Basic realm=x"]) }
        let sender = try sender(for: server)
        for id in UInt64(0)..<2 {
            let outcome = try sender.outcome(HTTPRequest(id: id, url: server.url(), allowed: .loopback))
            #expect(outcome.response?.status == 401)
        }
        #expect(server.requests.count == 2)
        #expect(server.requests[1].headers == server.requests[0].headers)
        #expect(server.requests[1].headers["cookie"] == nil)
    }

    // MARK: Bounds

    @Test func anEndlessBodyIsCutAndItsStatusCounts() throws {
        let server = try WebServer { _, connection in
            connection.send("HTTP/1.1 200 OK\r\n\r\n")
            while connection.send([UInt8](repeating: 7, count: 1000)) {}
        }
        var request = HTTPRequest(id: 1, url: server.url(), allowed: .loopback)
        request.mostAnswer = 2500
        let outcome = try sender(for: server).outcome(request)
        #expect(outcome.response == .init(status: 200, retryAfter: nil, body: [UInt8](repeating: 7, count: 2500)))
    }

    @Test func anAnswerOfJustTheLengthThatIsKeptIsWhole() throws {
        let server = try WebServer { $1.answer(200, "12345") }
        let sender = try sender(for: server)
        for id in UInt64(0)..<2 {
            var request = HTTPRequest(id: id, url: server.url(), allowed: .loopback)
            request.mostAnswer = 5
            #expect(try sender.outcome(request).response?.body == Array("12345".utf8))
        }
        // The response was not cut: the connection went on.
        #expect(server.accepted == 1)
    }

    @Test func bytesThatStandForMoreAreKeptAsTheyAre() throws {
        let server = try WebServer { $1.answer(200, headers: ["Content-Encoding: gzip"], "\u{1f}zipped") }
        let outcome = try sender(for: server).outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
        #expect(outcome.response?.body == Array("\u{1f}zipped".utf8))
        #expect(server.requests.map { $0.headers["accept-encoding"] } == [nil])
    }

    @Test(arguments: ["HTTP/1.1 200 OK\r\n", ""])
    func endlessHeadersEndTheTransfer(start: String) throws {
        let server = try WebServer { _, connection in
            connection.send(start)
            let lines = start.isEmpty ? "HTTP/1.1 103 Early Hints\r\n\r\n" : "X-Filler: 0123456789\r\n"
            while connection.send(String(repeating: lines, count: 20)) {}
        }
        let outcome = try sender(for: server).outcome(HTTPRequest(id: 1, url: server.url(), allowed: .loopback))
        #expect(outcome == .failed(reason: "the answer has more than 65536 bytes of headers", wasHandedOver: true))
    }

    @Test func aServerThatDoesNotAnswerIsGivenUp() throws {
        let gate = Gate()
        let server = try WebServer { _, _ in gate.wait() }
        var request = HTTPRequest(id: 1, url: server.url(), allowed: .loopback)
        request.timeout = 2_000
        let outcome = try sender(for: server).outcome(request, within: 8_000)
        #expect(outcome == .failed(reason: "no whole answer within 2000 ms", wasHandedOver: true))
        gate.open()
    }

    @Test func aServerThatSendsAByteNowAndThenIsCutOff() throws {
        let server = try WebServer { _, connection in
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while connection.send("x") { usleep(20_000) }
        }
        var request = HTTPRequest(id: 1, url: server.url(), allowed: .loopback)
        request.timeout = 2_000
        let outcome = try sender(for: server).outcome(request, within: 8_000)
        #expect(outcome == .failed(reason: "no whole answer within 2000 ms", wasHandedOver: true))
    }

    @Test func aServerThatDoesNotShakeHandsIsGivenUp() throws {
        let gate = Gate()
        let listener = Listener { _ in gate.wait() }
        let sender = try HTTPSender(userAgent: "bellwire-tests")
        var request = HTTPRequest(id: 1, url: "https://127.0.0.1:\(listener.port)/", allowed: .loopback)
        request.timeout = 300
        let outcome = try sender.outcome(request, within: 5_000)
        #expect(outcome == .failed(reason: "no connection within 300 ms", wasHandedOver: false))
        gate.open()
    }

    @Test func tenAtOnceGoToOneHostAndTheOthersFollow() throws {
        let gate = Gate()
        let server = try WebServer { _, connection in
            gate.wait()
            connection.answer(200)
        }
        let sender = try sender(for: server)
        for id in UInt64(0)..<25 { sender.send(HTTPRequest(id: id, url: server.url(), allowed: .loopback)) }
        try eventually { server.requests.count == 10 && sender.counts == (10, 15) }
        gate.open()
        let answers = try sender.answers(25)
        #expect(answers.allSatisfy { $0.outcome.response?.status == 200 })
        #expect(Set(answers.map(\.id)) == Set(0..<25))
        #expect(server.mostAtOnce == 10)
        #expect(sender.counts == (0, 0))
    }

    @Test func whoWaitsTooLongOrBehindTooManyFails() throws {
        let gate = Gate()
        let server = try WebServer { _, _ in gate.wait() }
        let sender = try sender(for: server)
        let (running, waiting) = (HTTPSender.mostPerHost, HTTPSender.mostWaitingPerHost)
        for id in 0..<running { sender.send(HTTPRequest(id: UInt64(id), url: server.url(), allowed: .loopback)) }
        try eventually { sender.counts == (running, 0) }
        for id in 0...waiting {
            var request = HTTPRequest(id: UInt64(1000 + id), url: server.url(), allowed: .loopback)
            request.timeout = 2_000
            sender.send(request)
        }
        let answers = try sender.answers(waiting + 1)
        #expect(answers[0].id == UInt64(1000 + waiting))
        #expect(answers[0].outcome.reason == "500 requests wait for this host already")
        let late = HTTPAnswer.Outcome.notTried(reason: "not sent within 2000 ms: others went before it")
        #expect(answers.dropFirst().allSatisfy { $0.outcome == late && $0.took >= 2_000 })
        gate.open()
    }

    @Test func aHostThatIsSlowHoldsUpNoOther() throws {
        let gate = Gate()
        let slow = try WebServer { _, connection in
            gate.wait()
            connection.answer(200)
        }
        let quick = try WebServer(certificate: try CertificateFiles()) { $1.answer(204) }
        let both = try TextFile(slow.certificate + quick.certificate)
        let sender = try HTTPSender(certificateAuthorityFile: both.path, userAgent: "bellwire-tests")
        for id in UInt64(0)..<30 { sender.send(HTTPRequest(id: id, url: slow.url(), allowed: .loopback)) }
        for id in UInt64(100)..<120 { sender.send(HTTPRequest(id: id, url: quick.url(), allowed: .loopback)) }
        #expect(try sender.answers(20).allSatisfy { $0.outcome.response?.status == 204 })
        gate.open()
        #expect(try sender.answers(30).allSatisfy { $0.outcome.response?.status == 200 })
    }

    // MARK: HTTP/2

    @Test func requestsShareAConnectionWhereTheServerSpeaksHTTP2() throws {
        let server = try HTTP2Server(answersAfter: [1, 5])
        let sender = try HTTPSender(certificateAuthorityFile: server.certificateFile, userAgent: "bellwire-tests")
        let first = try sender.outcome(HTTPRequest(id: 0, url: server.url, body: [1, 2, 3], allowed: .loopback))
        #expect(first.response?.status == 200)
        for id in UInt64(1)...5 {
            sender.send(HTTPRequest(id: id, url: server.url, body: [1, 2, 3], allowed: .loopback))
        }
        let answers = try sender.answers(5)
        #expect(answers.allSatisfy { $0.outcome.response?.status == 200 })
        #expect(server.accepted == 1)
        // The sender refuses a request with other rules, and takes the connection from no other request.
        let refused = try sender.outcome(HTTPRequest(id: 6, url: server.url))
        #expect(refused == .failed(reason: "127.0.0.1 is a loopback address", wasHandedOver: false))
    }

    // MARK: The end

    @Test func stoppingFailsWhatIsOpenAndWhatComesAfterwards() throws {
        let gate = Gate()
        let server = try WebServer { _, _ in gate.wait() }
        let sender = try sender(for: server)
        for id in UInt64(0)..<12 { sender.send(HTTPRequest(id: id, url: server.url(), allowed: .loopback)) }
        try eventually { server.requests.count == 10 }
        sender.stop()
        sender.send(HTTPRequest(id: 12, url: server.url(), allowed: .loopback))
        let answers = sender.take()
        #expect(Set(answers.map(\.id)) == Set(0...12))
        #expect(answers.allSatisfy { $0.outcome.reason == "the sender is stopped" })
        #expect(Set(answers.filter(\.outcome.wasHandedOver).map(\.id)).count == 10)
        #expect(sender.counts == (0, 0))
        sender.stop()
        gate.open()
    }

    @Test func aServerThatHangsUpHasMaybeTakenTheRequest() throws {
        let server = try TLSServer { _ = $0.readHead() }
        let file = server.certificate.certificate
        let sender = try HTTPSender(certificateAuthorityFile: file, userAgent: "bellwire-tests")
        let outcome = try sender.outcome(
            HTTPRequest(id: 1, url: "https://127.0.0.1:\(server.port)/", allowed: .loopback))
        #expect(outcome.response == nil && outcome.wasHandedOver)
    }
}
