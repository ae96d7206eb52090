import Basics
import HTTPSending

/// The receiver of spans: a collector, or a tracing backend that takes OTLP/HTTP.
package struct OTLPSettings: Sendable {
    package static let mostURLBytes = 2_048
    package static let mostHeaders = 16
    static let mostHeaderBytes = 16 << 10

    package let url: String
    package let headers: [(name: String, value: String)]

    /// - Parameters:
    ///   - url: the receiver's URL; without a path, `/v1/traces` is added.
    ///   - headersFile: the file with the headers of each request; nil for none.
    package init(url: String, headersFile: String? = nil) throws(SettingsError) {
        self.url = try Self.endpoint(url)
        headers = try headersFile.map(Self.headers(of:)) ?? []
    }

    private static func headers(of file: String) throws(SettingsError) -> [(name: String, value: String)] {
        let bytes = try readFile(file, maxBytes: mostHeaderBytes)
        do throws(SettingsError) {
            return try headers(bytes)
        } catch {
            throw error.within(file)
        }
    }

    private static func endpoint(_ text: String) throws(SettingsError) -> String {
        guard text.utf8.count <= mostURLBytes else { throw SettingsError("longer than \(mostURLBytes) bytes") }
        guard let url = ServerURL(text), ["http", "https"].contains(url.scheme),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) })
        else { throw SettingsError("expected http:// or https://, a host, and perhaps a port and a path") }
        // A secret has no place on a command line, where all users of the machine see it.
        guard url.username == nil, url.password == nil, !text.utf8.contains(where: { "?#".utf8.contains($0) }) else {
            throw SettingsError("user, password, query and fragment have no place in this URL: use --otlp-headers")
        }
        guard url.path.isEmpty else { return text }
        return (text.hasSuffix("/") ? String(text.dropLast()) : text) + "/v1/traces"
    }

    /// Reads a header from each line, `Name: value`. Empty lines, and lines that begin with `#`, do not count. The
    /// errors name no value.
    static func headers(_ bytes: [UInt8]) throws(SettingsError) -> [(name: String, value: String)] {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw SettingsError("not UTF-8") }
        var headers: [(name: String, value: String)] = []
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (place, line) in lines.enumerated() where !line.allSatisfy(\.isWhitespace) && !line.hasPrefix("#") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw SettingsError("line \(place + 1): expected Name: value") }
            let header = (name: String(parts[0]), value: String(parts[1].trimmed))
            if let problem = HTTPRequest(id: 0, url: "", headers: [header]).problem {
                throw SettingsError("line \(place + 1): \(problem)")
            }
            guard header.name.lowercased() != "content-type" else {
                throw SettingsError("line \(place + 1): Bellwire sets this header")
            }
            headers.append(header)
        }
        guard headers.count <= mostHeaders else { throw SettingsError("more than \(mostHeaders) headers") }
        return headers
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        var text = drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
