/// The outcome of a request. Each request has exactly one outcome.
package struct HTTPAnswer: Sendable {
    package enum Outcome: Sendable, Equatable {
        /// The server has responded, with any status; a redirect is a response like any other.
        case answered(Response)
        /// The request was not begun: too many other requests went before, or the sender has stopped.
        case notTried(reason: String)
        /// `handOverBefore` passed before a connection was ready. No byte of the request has left.
        case notHandedOver
        /// No complete response came. The reason contains neither the URL's path and query nor a header's value.
        /// `wasHandedOver` tells whether the request may have reached the server.
        case failed(reason: String, wasHandedOver: Bool)
    }

    package struct Response: Sendable, Equatable {
        package let status: Int
        /// The `Retry-After` of the server, in seconds from now, at most `longestRetryAfter`. Nil without that header,
        /// or for a time that has passed.
        package let retryAfter: Int?
        /// The body, at most as long as the request allowed.
        package let body: [UInt8]

        /// A day; a longer time is not meant for a single request.
        package static let longestRetryAfter = 86_400

        package init(status: Int, retryAfter: Int?, body: [UInt8]) {
            self.status = status
            self.retryAfter = retryAfter
            self.body = body
        }
    }

    /// The id of the request.
    package let id: UInt64
    package let outcome: Outcome
    /// The milliseconds since the request was posted, including the wait for its turn.
    package let took: Int64

    package init(id: UInt64, outcome: Outcome, took: Int64) {
        self.id = id
        self.outcome = outcome
        self.took = took
    }
}
