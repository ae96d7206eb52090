/// A request to a server of a stranger or of a provider.
package struct HTTPRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case delete = "DELETE"
        case put = "PUT"
        /// For the sender itself, to open a connection.
        case head = "HEAD"
    }

    /// An id that the caller chooses; the answer has the same id.
    package var id: UInt64
    package var method: Method
    /// `https://…`, in printable ASCII, at most `longestURL` bytes, without user and password.
    package var url: String
    /// Headers that are sent unchanged, beside the headers that curl and the body need.
    package var headers: [(name: String, value: String)]
    /// Must be empty with GET and HEAD.
    package var body: [UInt8]
    /// The bound of the whole request, in milliseconds, 1 to `longestTimeout`: name lookup, connecting, sending, and
    /// the whole response. A request may wait for its turn for the same time again.
    package var timeout: Int64 = 10_000
    /// The bound of the response's body, in bytes. A longer body is cut and the transfer ended; its status still
    /// counts.
    package var mostAnswer = 16 * 1024
    package var allowed: AddressRules
    /// Whether the operator named the server, not a stranger. Such a server may have any address and port, may have
    /// more requests under way, and gets requests on a shared HTTP/2 connection. `allowed` does not count.
    package var isToProvider = false
    /// Whether the URL may be `http://…`, because the operator named the server and its scheme.
    package var allowsPlainHTTP = false
    /// A time by the boot clock, in milliseconds. From then on the request is not handed to a connection, but returned
    /// as `notHandedOver`. Nil for no such time.
    package var handOverBefore: Int64?

    package static let longestURL = 4096
    package static let longestTimeout: Int64 = 60_000

    package init(
        id: UInt64, method: Method = .post, url: String, headers: [(name: String, value: String)] = [],
        body: [UInt8] = [], allowed: AddressRules = AddressRules()
    ) {
        self.id = id
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.allowed = allowed
    }

    /// The reason why the request cannot be sent, regardless of its URL; nil for a valid request.
    package var problem: String? {
        guard (1...Self.longestTimeout).contains(timeout) else { return "a timeout of \(timeout) ms cannot be kept" }
        guard method != .get && method != .head || body.isEmpty else { return "\(method.rawValue) has no body" }
        return headers.lazy.compactMap(Self.problem).first
    }

    /// Returns the reason why a header is invalid. A name must be a token, and a value must contain no control
    /// characters (RFC 9110, section 5), so that a header cannot begin another header.
    private static func problem(name: String, value: String) -> String? {
        guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else { return "a header's name is not a token" }
        guard !framing.contains(name.lowercased()) else { return "the header \(name) must not be set by the caller" }
        guard value.utf8.allSatisfy({ $0 == 9 || $0 >= 0x20 && $0 != 0x7F }) else {
            return "the header \(name) has a control character"
        }
        return nil
    }

    /// Headers that follow from the URL and the body. A caller's values of these headers could contradict the URL and
    /// the body, and servers would read the request differently.
    private static let framing: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
    ]

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
