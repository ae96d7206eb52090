/// A request's first line and its headers.
struct RequestHead {
    struct Field: Sendable {
        /// In lower case.
        let name: String
        /// With the spaces behind it, as microhttpd reads it.
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

    /// What the client is answered at once, before its body; nil when the request is in order.
    ///
    /// microhttpd takes much for HTTP that others read differently. What two servers read differently lets one request hide behind
    /// another when a proxy is in front.
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
        // microhttpd would wait for the end of the connection.
        guard codings.allSatisfy({ $0.lowercased() == "chunked" }) else { return HTTPRefusal(501, "only chunked") }
        guard let length = lengths.first, !canBeDropped(length, longestBody) else { return nil }
        return .tooLong
    }

    /// So little is too much that the client is better answered when it has sent it all. One that waits for leave to send is not let.
    private func canBeDropped(_ length: String, _ longestBody: Int) -> Bool {
        guard let length = Int(length) else { return false }
        if length <= longestBody { return true }
        return values(of: "expect").isEmpty && length - longestBody <= HTTPServerSettings.mostDropped
    }
}

/// What the server refuses by itself.
package struct HTTPRefusal: Sendable, Equatable {
    package let status: Int
    /// In a few words, without an end of line.
    package let reason: String
    /// Nothing more is read on this connection.
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
