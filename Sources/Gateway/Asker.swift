import HTTPServing

/// Who waits for an answer; each is counted.
struct Asker: Sendable {
    private let exchange: HTTPExchange
    private let route: Route?
    private let status: GatewayStatus
    private let start = ContinuousClock.now

    /// `route`: nil when the path is none of the gateway's.
    init(_ exchange: HTTPExchange, _ route: Route?, _ status: GatewayStatus) {
        self.exchange = exchange
        self.route = route
        self.status = status
    }

    func respond(_ response: HTTPResponse) { exchange.respond(counted(response)) }

    func refuse(_ problem: Problem) { respond(refusal(problem)) }

    /// In the words of who asks.
    func refusal(_ problem: Problem) -> HTTPResponse {
        route?.isZegoCall ?? false ? problem.zegoCallResponse : problem.response
    }

    func counted(_ response: HTTPResponse) -> HTTPResponse {
        status.answered(route, response.status, milliseconds: (ContinuousClock.now - start) / .milliseconds(1))
        guard let route, route.isRing else { return response }
        var open = response
        open.headers += Self.forDevices
        return open
    }

    /// Whatever is answered to a device: a page of any origin may read it, and nobody keeps it. The key must not go on to where a page leads.
    private static let forDevices = [
        HTTPResponse.Header("Access-Control-Allow-Origin", "*"), HTTPResponse.Header("Cache-Control", "no-store"),
        HTTPResponse.Header("Referrer-Policy", "no-referrer"),
    ]
}
