/// The first line and the headers of a request.
struct RequestHead {
    struct Field: Sendable {
        /// The name in lower case.
        let name: String
        /// The value. microhttpd leaves trailing spaces in the value.
        let value: String
    }

    let method: String
    let path: String
    let query: String
    private let version: String
    let fields: [Field]

    init(method: String, target: String, version: String, fields: [Field]) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.method = method
        path = String(parts[0])
        query = parts.count > 1 ? String(parts[1]) : ""
        self.version = version
        self.fields = fields
    }

    private func values(of name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// Returns the refusal that the client gets before its body is read; nil when the request is valid.
    ///
    /// microhttpd accepts input that other servers read differently. Behind a proxy, such differences let an attacker
    /// hide one request inside another.
    func refusal(longestBody: Int) -> HTTPRefusal? {
        guard isToken(method), fields.allSatisfy({ isToken($0.name) }),
            (path + query).utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return HTTPRefusal(400, "not HTTP") }
        guard version == "HTTP/1.0" || values(of: "host").count == 1 else {
            return HTTPRefusal(400, "HTTP/1.1 needs one Host")
        }
        let lengths = values(of: "content-length")
        let codings = values(of: "transfer-encoding")
        guard lengths.count + codings.count <= 1 else {
            return HTTPRefusal(400, "more than one of Content-Length and Transfer-Encoding")
        }
        // With any other coding, microhttpd would read the body until the end of the connection.
        guard codings.allSatisfy({ $0.lowercased() == "chunked" }) else { return HTTPRefusal(501, "only chunked") }
        guard let length = lengths.first, !canBeDropped(length, longestBody) else { return nil }
        return .tooLong
    }

    /// Whether a body is only a little too long, so that the client gets the response after it has sent the whole body.
    /// A client that waits for permission to send gets the response at once.
    private func canBeDropped(_ length: String, _ longestBody: Int) -> Bool {
        guard let length = Int(length) else { return false }
        if length <= longestBody { return true }
        return values(of: "expect").isEmpty && length - longestBody <= HTTPServerSettings.mostDropped
    }
}

/// A refusal by the server itself.
package struct HTTPRefusal: Sendable, Equatable {
    package let status: Int
    /// A few words without a line break.
    package let reason: String
    /// Whether the server reads no more from this connection.
    let closes: Bool

    init(_ status: Int, _ reason: String, closes: Bool = false) {
        self.status = status
        self.reason = reason
        self.closes = closes
    }

    static let tooLong = HTTPRefusal(413, "the body is too long", closes: true)
    static let stopping = HTTPRefusal(503, "the server stops", closes: true)
    static let full = HTTPRefusal(503, "too many connections", closes: true)
    static let notInTime = HTTPRefusal(503, "no answer in time")
}

/// RFC 9110, section 5.6.2.
private func isToken(_ text: String) -> Bool {
    !text.isEmpty
        && text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
}
