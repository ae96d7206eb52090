/// What a server grants its clients. All together they can take some `mostConnections` times (`longestHead` +
/// `longestBody`) bytes.
package struct HTTPServerSettings: Sendable {
    /// Connections at once, at least 1, without those whose response goes on. When there are so many, the one that has been at rest longest is
    /// closed for a newcomer.
    package var mostConnections = 1_024
    /// Connections whose response goes on. Whoever opens streams sees to it that there are no more.
    package var mostStreams = 0
    /// Connections beside those, for the time when all have a request that is being served: only what is vital is served there.
    package var mostReserved = 64
    /// Connections of one client's address at once, those whose response goes on included; 0 for no bound of their own. At the bound the one
    /// of that address gives way that has been at rest longest.
    package var mostPerAddress = 0
    /// Whether a request, by its method and path, is served also in a reserved place.
    package var isVital: @Sendable (_ method: String, _ path: String) -> Bool = { _, _ in false }
    /// Bytes of a request's body. A longer one is answered 413, and the connection closed.
    package var longestBody = 65 * 1_024
    /// Bytes of memory for one connection, at least 1024. A request's line and headers must fit in, with 64 more for each header. Longer ones
    /// are answered 414 or 431, and the connection closed.
    package var longestHead = 32 * 1_024
    /// Milliseconds, at least 100: so long may it take until a request is whole, from when the connection was made or, on one that was idle,
    /// the request's first line arrived; so long may the server take to answer it; and so long the client to read the response.
    package var longestTime: Int64 = 30_000
    /// Milliseconds, at least 100: so long a connection is kept after a response, until the next request begins. Load balancers keep theirs for
    /// 60 s, and answer 502 when the server is the first to close one.
    package var longestIdle: Int64 = 75_000
    /// How the server tells what it refuses by itself: what cannot be one request, is too long, or has no answer in time.
    package var refuse: @Sendable (HTTPRefusal) -> HTTPResponse = { .text($0.status, $0.reason + "\n") }
    /// HTTPS with this, plain HTTP without.
    package var tls: TLS?

    package struct TLS: Sendable {
        /// The server's certificate, and behind it those that lead to an authority. PEM.
        package let certificates: String
        /// The certificate's private key, without a password. PEM.
        package let key: String

        package init(certificates: String, key: String) {
            self.certificates = certificates
            self.key = key
        }
    }

    package init() {}

    func response(_ refusal: HTTPRefusal) -> HTTPResponse {
        let response = refuse(refusal)
        return refusal.closes ? response.closing : response
    }

    /// Bytes that are read and dropped of a body that is too long. A client that is still sending when its connection is closed may never
    /// see the answer.
    static let mostDropped = 256 * 1_024

    /// Milliseconds between two looks for clients that are late.
    var sweepInterval: Int64 { min(1_000, min(longestTime, longestIdle) / 4) }

    /// Connections that there can be at all, those included that were shut down and are not closed yet.
    package var mostSockets: Int { mostConnections + mostStreams + mostReserved + ConnectionPlaces.mostLeaving }
}
