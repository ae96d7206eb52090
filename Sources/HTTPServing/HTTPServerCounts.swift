/// The counts of a server.
package struct HTTPServerCounts: Sendable, Equatable {
    /// The end of a request whose first line could be parsed.
    package enum Outcome: String, Sendable, CaseIterable {
        case success = "2xx"
        case redirect = "3xx"
        case clientError = "4xx"
        case serverError = "5xx"
        /// The connection ended before the response was sent.
        case unanswered

        init(status: Int) {
            switch status {
            case 200..<300: self = .success
            case 300..<400: self = .redirect
            case 400..<500: self = .clientError
            case 500..<600: self = .serverError
            default: self = .unanswered
            }
        }
    }

    /// The open connections.
    package var open = 0
    /// The connections that were closed or got the response 503, because there were too many connections and none was
    /// at rest.
    package var refused = 0
    /// The connections at rest that were closed for a newcomer.
    package var gaveWay = 0
    /// The connections that were closed because their client took too long to send a request or to read a response.
    package var late = 0
    /// The finished requests.
    package var requests: [Outcome: Int] = [:]
}

extension HTTPServerCounts {
    /// The counts of several servers together.
    package init(_ servers: [HTTPServerCounts]) {
        self.init()
        for server in servers {
            open += server.open
            refused += server.refused
            gaveWay += server.gaveWay
            late += server.late
            requests.merge(server.requests, uniquingKeysWith: +)
        }
    }
}
