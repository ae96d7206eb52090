import HTTPServing
import SignalingProtocol

/// The client that waits for the response to an HTTP request; each response is counted.
struct Asker: Sendable {
    private let exchange: HTTPExchange
    private let route: Route?
    private let status: GatewayStatus
    private let start = ContinuousClock.now
    /// The header `traceparent` of the HTTP request, for the request to the service; nil without a single such header.
    let traceParent: TraceParent?

    /// - Parameter route: nil when the gateway does not know the path.
    init(_ exchange: HTTPExchange, _ route: Route?, _ status: GatewayStatus) {
        self.exchange = exchange
        self.route = route
        self.status = status
        let parents = exchange.header("traceparent")
        traceParent = parents.count == 1 ? TraceParent(parents[0]) : nil
    }

    func respond(_ response: HTTPResponse) { exchange.respond(counted(response)) }

    func refuse(_ problem: Problem) { respond(refusal(problem)) }

    /// Returns the refusal in the format of the client's protocol.
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

    /// Headers of all responses to devices: a page of any origin may read the response, and caches must not keep the
    /// response. The `Referer` header must not carry the key to other pages.
    private static let forDevices = [
        HTTPResponse.Header("Access-Control-Allow-Origin", "*"), HTTPResponse.Header("Cache-Control", "no-store"),
        HTTPResponse.Header("Referrer-Policy", "no-referrer"),
    ]
}
