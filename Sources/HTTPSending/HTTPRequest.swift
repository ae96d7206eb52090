/// One request to somebody else's server.
package struct HTTPRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case delete = "DELETE"
        /// For the sender itself, to have a connection.
        case head = "HEAD"
    }

    /// The caller's; the answer has it too.
    package var id: UInt64
    package var method: Method
    /// `https://…`, in printable ASCII, at most `longestURL` bytes, without a user and a password.
    package var url: String
    /// Sent as they are, beside those that curl and the body need.
    package var headers: [(name: String, value: String)]
    /// Must be empty with GET and HEAD.
    package var body: [UInt8]
    /// Milliseconds, 1 to `longestTimeout`, for all of it: looking the name up, connecting, sending, and the whole answer. A request that has to
    /// wait for its turn may do so for as long again.
    package var timeout: Int64 = 10_000
    /// Bytes of the answer's body that are kept. A longer answer is cut and the transfer ended; its status still counts.
    package var mostAnswer = 16 * 1024
    package var allowed: AddressRules
    /// The operator named the server, not a stranger: it may be at any address and port, more may be under way to it, and requests to it share
    /// a connection of HTTP/2. `allowed` does not count.
    package var isToProvider = false
    /// By the boot clock, in milliseconds: from then on the request is not handed to a connection any more, but given back as
    /// `notHandedOver`. Nil: at any time.
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

    /// Why it cannot be sent, whatever its URL is; nil when it can.
    var problem: String? {
        guard (1...Self.longestTimeout).contains(timeout) else { return "a timeout of \(timeout) ms cannot be kept" }
        guard method != .get && method != .head || body.isEmpty else { return "\(method.rawValue) has no body" }
        return headers.lazy.compactMap(Self.problem).first
    }

    /// A name is a token, and a value has no control characters (RFC 9110, section 5): neither can begin another header.
    private static func problem(name: String, value: String) -> String? {
        guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else { return "a header's name is not one" }
        guard !framing.contains(name.lowercased()) else { return "the header \(name) is not the caller's to set" }
        guard value.utf8.allSatisfy({ $0 == 9 || $0 >= 0x20 && $0 != 0x7F }) else {
            return "the header \(name) has a control character"
        }
        return nil
    }

    /// They follow from the URL and the body; others would tell two readers different things.
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
