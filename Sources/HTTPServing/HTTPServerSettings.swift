/// The bounds of a server. All clients together can take about `mostConnections` times (`longestHead` + `longestBody`)
/// bytes.
package struct HTTPServerSettings: Sendable {
    /// The bound of open connections without streaming connections, at least 1. At this bound the connection that has
    /// been at rest longest is closed for a newcomer.
    package var mostConnections = 1_024
    /// The bound of streaming connections. The code that opens streams must keep this bound.
    package var mostStreams = 0
    /// The number of reserved connections, for the time when all other connections serve a request. Reserved
    /// connections serve only vital requests.
    package var mostReserved = 64
    /// The bound of open connections of one client address, streaming connections included; 0 for no bound. At this
    /// bound the connection of this address that has been at rest longest gives way.
    package var mostPerAddress = 0
    /// Whether a request with this method and path is vital, and may be served on a reserved connection.
    package var isVital: @Sendable (_ method: String, _ path: String) -> Bool = { _, _ in false }
    /// The bound of a request's body, in bytes. A longer body is answered 413, and the connection closed.
    package var longestBody = 65 * 1_024
    /// The memory of one connection, in bytes, at least 1024. The request line and the headers must fit, with 64 more
    /// bytes for each header. Longer requests are answered 414 or 431, and the connection closed.
    package var longestHead = 32 * 1_024
    /// The bound of each phase of a request, in milliseconds, at least 100: until the request is whole, counted from
    /// the start of the connection, or on an idle connection from the request's first line; until the server responds;
    /// and until the client has read the response.
    package var longestTime: Int64 = 30_000
    /// How long a connection is kept from a response to the next request, in milliseconds, at least 100. Load balancers
    /// keep their connections for 60 s, and answer 502 when the server closes a connection first.
    package var longestIdle: Int64 = 75_000
    /// Makes the response of a refusal by the server itself: not a single request, too long, or no response in time.
    package var refuse: @Sendable (HTTPRefusal) -> HTTPResponse = { .text($0.status, $0.reason + "\n") }
    /// The certificates for HTTPS; nil for plain HTTP.
    package var tls: TLS?

    package struct TLS: Sendable {
        /// The server's certificate, followed by the certificates that lead to an authority, in PEM.
        package let certificates: String
        /// The private key of the certificate, without a password, in PEM.
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

    /// The bytes of a too long body that are read and dropped. A client that is still sending when its connection is
    /// closed may never see the response.
    static let mostDropped = 256 * 1_024

    /// The milliseconds between two searches for late clients.
    var sweepInterval: Int64 { min(1_000, min(longestTime, longestIdle) / 4) }

    /// The bound of all sockets, including connections that were shut down and are not closed yet.
    package var mostSockets: Int { mostConnections + mostStreams + mostReserved + ConnectionPlaces.mostLeaving }
}
