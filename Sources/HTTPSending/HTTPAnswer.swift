/// What has become of a request. There is exactly one for each.
package struct HTTPAnswer: Sendable {
    package enum Outcome: Sendable, Equatable {
        /// The server has answered, with whatever status; a redirect is an answer like any other.
        case answered(Response)
        /// It was not begun: too many others went before it, or the sender has ended.
        case notTried(reason: String)
        /// Its `handOverBefore` came before a connection was there for it. Nothing of it has left.
        case notHandedOver
        /// There is no whole answer. The reason names neither the URL's path or query nor what a header says. `wasHandedOver`: the request may
        /// have reached the other side.
        case failed(reason: String, wasHandedOver: Bool)
    }

    package struct Response: Sendable, Equatable {
        package let status: Int
        /// Seconds for which the server asks not to be asked again, from now, at most `longestRetryAfter`. Nil when it
        /// does not say so, or names a time that is over.
        package let retryAfter: Int?
        /// At most as much as the request wanted.
        package let body: [UInt8]

        /// A day: longer is not meant for one request.
        package static let longestRetryAfter = 86_400

        package init(status: Int, retryAfter: Int?, body: [UInt8]) {
            self.status = status
            self.retryAfter = retryAfter
            self.body = body
        }
    }

    /// The request's.
    package let id: UInt64
    package let outcome: Outcome
    /// Milliseconds since it was given to be sent, the wait for its turn included.
    package let took: Int64

    package init(id: UInt64, outcome: Outcome, took: Int64) {
        self.id = id
        self.outcome = outcome
        self.took = took
    }
}
