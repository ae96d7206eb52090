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

    func counted(_ response: HTTPResponse) -> HTTPResponse {
        status.answered(route, response.status, milliseconds: (ContinuousClock.now - start) / .milliseconds(1))
        return response
    }
}
