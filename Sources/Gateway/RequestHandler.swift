import HTTPServing
import SignalingProtocol
import Support
import Synchronization
import Tokens

/// The work of the HTTP server's thread for a request: checks the token, finds the operation, and hands the request on.
/// Never waits.
final class RequestHandler: Sendable {
    private let bearers: BearerCheck
    private let relay: Inbox<AskedRequest>
    private let reader: Inbox<AskedQuestion>
    private let ring: RingDesk
    private let streams: StreamDesk
    private let budgets = UserBudgets()
    private let page: CallPage?
    private let status: GatewayStatus
    /// The HTTP servers, for their counts.
    private let servers = Mutex<[HTTPServer]>([])

    init(
        _ bearers: BearerCheck, _ relay: Inbox<AskedRequest>, _ reader: Inbox<AskedQuestion>, _ ring: RingDesk,
        _ streams: StreamDesk, _ page: CallPage?, _ status: GatewayStatus
    ) {
        self.bearers = bearers
        self.relay = relay
        self.reader = reader
        self.ring = ring
        self.streams = streams
        self.page = page
        self.status = status
    }

    func serve(_ servers: [HTTPServer]) { self.servers.withLock { $0 = servers } }

    /// Returns nil when another thread responds.
    /// - Parameter scope: the scope of the listener that the request came to.
    func handle(_ exchange: HTTPExchange, _ scope: ListenerScope) -> HTTPResponse? {
        if let notice = bearers.lookAtKeys() { status.tell(notice) }
        var asker = Asker(exchange, nil, status)
        do throws(Problem) {
            guard let levels = RequestPath.levels(exchange.path) else {
                throw .badRequest("the path is not UTF-8 in percent-encoding")
            }
            guard scope.has(levels) else { throw .unknownPath }
            if let file = file(exchange.method, levels) { return file }
            let asked = try asked(exchange, levels) { asker = Asker(exchange, $0, status) }
            return try serve(asked, asker).map(asker.counted)
        } catch {
            return asker.counted(asker.refusal(error))
        }
    }

    /// Returns a file of the admin page or of the call page, which are not part of REST.
    private func file(_ method: String, _ levels: [String]) -> HTTPResponse? {
        AdminPage.response(method, levels) ?? page?.response(method, levels)
    }

    private func asked(
        _ exchange: HTTPExchange, _ levels: [String], _ found: (Route) -> Void
    ) throws(Problem) -> Asked {
        switch Route.find(exchange.method, levels) {
        case .unknown: throw exchange.path == "/" ? .noPage : .unknownPath
        case .wrongMethod(let allowed): throw .wrongMethod(allowed)
        case .found(let route, let parameters):
            found(route)
            guard route.needsToken else {
                let query = route.isRing ? RequestQuery.pairs(exchange.query) : nil
                return Asked(route: route, parameters: parameters, query: query ?? [], body: exchange.body, key: nil)
            }
            let admin = route.isAdmin ? try bearers.admin(exchange.header("Authorization")) : nil
            let user = admin == nil ? try bearer(route, exchange) : nil
            let key = try key(exchange.header("Idempotency-Key"))
            guard let query = RequestQuery.pairs(exchange.query) else {
                throw .badRequest("the query is not UTF-8 in percent-encoding")
            }
            return Asked(
                route: route, parameters: parameters, query: query, body: exchange.body, key: key, user: user,
                lastEventID: exchange.header("Last-Event-ID").last, admin: admin)
        }
    }

    /// Returns the user of the token; nil for a backend, which is no user.
    private func bearer(_ route: Route, _ exchange: HTTPExchange) throws(Problem) -> Bearer? {
        let headers = exchange.header("Authorization")
        guard route.isZegoCall else {
            try bearers.check(headers)
            return nil
        }
        let bearer = try bearers.user(headers)
        try budgets.take(bearer.token.user, now: SystemClock.boot.microseconds)
        return bearer
    }

    /// An invalid `Idempotency-Key` is refused for every operation.
    private func key(_ headers: [String]) throws(Problem) -> RequestID? {
        guard let text = headers.first else { return nil }
        guard headers.count == 1, let key = RequestID(text) else {
            throw .badRequest("Idempotency-Key: expected one of 1 to 64 of A-Z a-z 0-9 _ -")
        }
        return key
    }

    private func serve(_ asked: Asked, _ asker: Asker) throws(Problem) -> HTTPResponse? {
        switch asked.route {
        case .healthy: return .text(200, "ok\n")
        case .ready:
            if let reason = status.notReadyReason { return .text(503, reason + "\n") }
            return .text(200, "ready\n")
        case .metrics:
            let counts = servers.withLock { $0.map(\.counts) }
            return .text(
                200, status.metrics(HTTPServerCounts(counts)), contentType: "text/plain; version=0.0.4; charset=utf-8")
        case .description:
            return HTTPResponse(200, contentType: "application/yaml", body: OpenAPI.document)
        case .ringCheckPreflight: return Self.preflight("GET")
        case .ringRejectPreflight: return Self.preflight("POST")
        default: break
        }
        switch try asked.operation(newID: Self.newID) {
        case .relay(let request): try hand(relay, AskedRequest(request: request, asker: asker))
        case .call(let id): try hand(reader, AskedQuestion(question: .call(id), asker: asker))
        case .trace(let id): try hand(reader, AskedQuestion(question: .trace(id), asker: asker))
        case .devices(let user, let isAdmin):
            try hand(reader, AskedQuestion(question: .devices(user, isAdmin: isAdmin), asker: asker))
        case .ring(let question):
            guard ring.isReady else {
                try hand(reader, AskedQuestion(question: .ring(question), asker: asker))
                break
            }
            try ring.take(question, asker, newID: Self.newID)
        case .act(let act, let entry): try hand(reader, AskedQuestion(question: .act(act, entry), asker: asker))
        case .online(let place, let count):
            try hand(reader, AskedQuestion(question: .online(after: place, count: count), asker: asker))
        case .audit(let place, let count):
            try hand(reader, AskedQuestion(question: .audit(after: place, count: count), asker: asker))
        case .liveCalls(let place, let count):
            try hand(reader, AskedQuestion(question: .liveCalls(after: place, count: count), asker: asker))
        case .webhooks: try hand(reader, AskedQuestion(question: .webhooks, asker: asker))
        case .deadLetters(let endpoint, let place, let count):
            let question = Reader.Question.deadLetters(endpoint, after: place, count: count)
            try hand(reader, AskedQuestion(question: question, asker: asker))
        case .heartbeat(let request, let id):
            try hand(reader, AskedQuestion(question: .heartbeat(request, id), asker: asker))
        case .events(let bearer, let lastEventID): return try events(bearer, lastEventID)
        case .token(let user, let device, let life):
            let (token, expiresAt) = try bearers.makeToken(user, device, life: life)
            var response = HTTPResponse.json(201) { writer in
                writer.field("token", token)
                writer.field("expiresAt", expiresAt)
            }
            response.headers.append(.init("Cache-Control", "no-store"))
            return response
        }
        return nil
    }

    /// Opens a stream of server-sent events, with headers that keep proxies from delaying the events.
    private func events(_ bearer: Bearer, _ lastEventID: String?) throws(Problem) -> HTTPResponse {
        HTTPResponse.streaming(
            try streams.open(bearer, lastEventID: lastEventID), contentType: "text/event-stream",
            headers: [.init("Cache-Control", "no-store"), .init("X-Accel-Buffering", "no")])
    }

    private func hand<Item>(_ inbox: Inbox<Item>, _ item: Item) throws(Problem) {
        guard inbox.post(item) else { throw .overloaded }
    }

    /// Answers a browser's preflight request, which precedes requests that a form could not send.
    private static func preflight(_ method: String) -> HTTPResponse {
        HTTPResponse(
            204,
            headers: [
                .init("Access-Control-Allow-Methods", method), .init("Access-Control-Allow-Headers", "*"),
                .init("Access-Control-Max-Age", "86400"),
            ])
    }

    static func newID() -> RequestID {
        var generator = SystemRandomNumberGenerator()
        return RequestID(String(generator.next() as UInt64, radix: 36) + String(generator.next() as UInt64, radix: 36))!
    }
}
