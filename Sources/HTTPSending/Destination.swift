import CCurl

/// A URL as curl parses it. The URL is parsed only once, so that curl requests exactly the checked URL.
final class Destination {
    /// The host and port of the URL, as written there.
    struct Host: Hashable {
        /// An IPv6 address has its brackets.
        let name: String
        let port: Int

        var root: String { "https://\(name):\(port)/" }
    }

    /// The reason why a request is not sent.
    struct Problem: Error {
        let reason: String
    }

    let url: OpaquePointer
    let host: Host
    /// `https`, or `http` where a request allows plain HTTP.
    let scheme: String

    init(_ text: String, allowsPlainHTTP: Bool = false) throws(Problem) {
        guard text.utf8.count <= HTTPRequest.longestURL else {
            throw Problem(reason: "the URL is longer than \(HTTPRequest.longestURL) bytes")
        }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Problem(reason: "the URL has a character that is not printable ASCII")
        }
        guard let url = curl_url() else { throw Problem(reason: "no memory") }
        do throws(Problem) {
            scheme = try Self.read(text, into: url, allowsPlainHTTP)
            host = try Self.host(of: url)
        } catch {
            curl_url_cleanup(url)
            throw error
        }
        self.url = url
    }

    deinit { curl_url_cleanup(url) }

    /// Returns the scheme.
    private static func read(
        _ text: String, into url: OpaquePointer, _ allowsPlainHTTP: Bool
    ) throws(Problem) -> String {
        switch curl_url_set(url, CURLUPART_URL, text, UInt32(CURLU_DISALLOW_USER)) {
        case CURLUE_OK: break
        case CURLUE_UNSUPPORTED_SCHEME: throw Problem(reason: "the URL is not an https URL")
        case CURLUE_USER_NOT_ALLOWED: throw Problem(reason: "the URL has a user or a password")
        case let code: throw Problem(reason: "the URL is not valid: \(String(cString: curl_url_strerror(code)))")
        }
        guard let scheme = part(CURLUPART_SCHEME, of: url), scheme == "https" || scheme == "http" && allowsPlainHTTP
        else { throw Problem(reason: "the URL is not an https URL") }
        return scheme
    }

    private static func host(of url: OpaquePointer) throws(Problem) -> Host {
        guard var name = part(CURLUPART_HOST, of: url), let text = part(CURLUPART_PORT, of: url), let port = Int(text)
        else { throw Problem(reason: "the URL names no host") }
        // A trailing dot marks a complete DNS name; the host is the same.
        if name.utf8.last == UInt8(ascii: ".") { name.removeLast() }
        return Host(name: name.lowercased(), port: port)
    }

    private static func part(_ part: CURLUPart, of url: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(url, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
