import Delivery
import Glibc
import HTTPServing
import SignalingProtocol
import Tokens

/// The call page (docs/browsers.md): the files of a directory, read at the start, and `/page.json` with the broker's
/// URL for browsers and the application server key for push subscriptions.
package struct CallPage: Sendable {
    /// The reason why the page cannot be served.
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    private enum CallPageBounds {
        static let files = 64
        static let bytesPerFile = 2 * 1024 * 1024
        static let bytes = 8 * 1024 * 1024
    }

    private struct File: Sendable {
        let contentType: String
        let bytes: [UInt8]
    }

    /// The files by name.
    private var files: [String: File] = [:]
    private let headers: [HTTPResponse.Header]

    /// Reads the page.
    /// - Parameters:
    ///   - directory: a directory with `index.html`; directories inside this directory are ignored.
    ///   - webSocketURL: the broker's URL for browsers, or the URLs of several brokers with commas.
    ///   - checksTokens: whether the broker requires a token from clients.
    ///   - push: the push settings of the deployment; a page belongs to the app `default`.
    package init(
        directory: String, webSocketURL: String, checksTokens: Bool, push: PushSettings? = nil
    ) throws(Problem) {
        var origins: [String] = []
        for url in webSocketURL.split(separator: ",", omittingEmptySubsequences: false) {
            guard let origin = Self.origin(String(url), ["ws://", "wss://"]) else {
                throw Problem(
                    description:
                        "\(url): expected ws://HOST:PORT or wss://HOST:PORT, perhaps with a path; several with commas")
            }
            origins.append(origin)
        }
        let pushKey = push?.apps[.standard]?.webPush?.key.publicPoint.map { Base64URL.encode($0) }
        // The page's service worker sends ring checks to this URL.
        if pushKey != nil, let url = push?.publicURL {
            guard let origin = Self.origin(url, ["http://", "https://"]) else {
                throw Problem(description: "publicURL \(url): browsers cannot reach a host with this name")
            }
            origins.append(origin)
        }
        headers = Self.headers(connectingTo: origins)
        for name in try Self.names(directory) {
            guard let type = Self.contentType(name) else { continue }
            do throws(SettingsError) {
                files[name] = File(
                    contentType: type,
                    bytes: try readFile("\(directory)/\(name)", maxBytes: CallPageBounds.bytesPerFile))
            } catch {
                throw Problem(description: error.description)
            }
        }
        guard files["index.html"] != nil else { throw Problem(description: "\(directory): no index.html in it") }
        guard files.count <= CallPageBounds.files,
            files.values.reduce(0, { $0 + $1.bytes.count }) <= CallPageBounds.bytes
        else {
            throw Problem(
                description: "\(directory): more than \(CallPageBounds.files) files, or \(CallPageBounds.bytes) bytes")
        }
        let answer = HTTPResponse.json(200) { writer in
            writer.field("url", webSocketURL)
            writer.field("tokens", checksTokens)
            if let pushKey { writer.field("applicationServerKey", pushKey) }
        }
        files["page.json"] = File(contentType: answer.contentType ?? "", bytes: answer.body)
    }

    /// Returns the file of a path; nil when the page has no such file.
    /// - Parameter levels: the decoded levels of the path.
    func response(_ method: String, _ levels: [String]) -> HTTPResponse? {
        guard levels.count <= 1, method == "GET" || method == "HEAD" else { return nil }
        let name = levels.first.flatMap { $0.isEmpty ? nil : $0 } ?? "index.html"
        guard let file = files[name] else { return nil }
        return HTTPResponse(200, contentType: file.contentType, headers: headers, body: file.bytes)
    }

    // MARK: Files

    private static func names(_ directory: String) throws(Problem) -> [String] {
        guard let stream = opendir(directory) else {
            throw Problem(description: "\(directory): \(String(cString: strerror(errno)))")
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            guard entry.pointee.d_type != UInt8(DT_DIR) else { continue }
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names.sorted()
    }

    /// Returns nil for a file of an unknown type, which is not part of the page.
    private static func contentType(_ name: String) -> String? {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "js", "mjs": "text/javascript; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "svg": "image/svg+xml"
        case "png": "image/png"
        case "webmanifest": "application/manifest+json"
        default: nil
        }
    }

    // MARK: The browser's permissions

    /// Returns the origin (`ws://host:port`) of a URL that may stand in a header; nil for other URLs.
    /// - Parameter schemes: the allowed schemes.
    private static func origin(_ url: String, _ schemes: [String]) -> String? {
        guard let scheme = schemes.first(where: url.hasPrefix), url.utf8.count <= 512 else { return nil }
        let authority = url.dropFirst(scheme.count).prefix { $0 != "/" }
        let path = url.dropFirst(scheme.count + authority.count)
        guard !authority.isEmpty, authority.utf8.allSatisfy(isOfAuthority), path.utf8.allSatisfy(isOfPath) else {
            return nil
        }
        return scheme + authority
    }

    private static func isOfAuthority(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || ".-:[]".utf8.contains(byte)
    }

    private static func isOfPath(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || "/._~%-".utf8.contains(byte)
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: false
        }
    }

    /// Allows only the page's own files, the broker, ring checks, and objects that are made in the page. No other page
    /// may frame this page, because a frame would borrow its camera.
    private static func headers(connectingTo origins: [String]) -> [HTTPResponse.Header] {
        PageHeaders.all(
            policy: [
                "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
                "media-src 'self' blob: mediastream:", "connect-src 'self' \(origins.joined(separator: " "))",
                "worker-src 'self' blob:",
                "manifest-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
            ], permissions: "camera=(self), microphone=(self), geolocation=()")
    }
}
