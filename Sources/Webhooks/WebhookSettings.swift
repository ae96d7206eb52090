import Glibc
import SignalingProtocol

/// The file of `--webhooks` (docs/webhooks.md, Settings), and the secrets that it names.
package struct WebhookSettings: Sendable {
    package static let maxEndpoints = 64
    package static let maxFileBytes = 1 << 20

    /// Whose certificates endpoints may have, in PEM; nil for those that the system trusts.
    package let certificateAuthorityFile: String?
    /// In the order of the file.
    package let endpoints: [WebhookEndpoint]

    package init(certificateAuthorityFile: String?, endpoints: [WebhookEndpoint]) {
        self.certificateAuthorityFile = certificateAuthorityFile
        self.endpoints = endpoints
    }

    /// Reads all of it. The first mistake is thrown, with its place and in one sentence.
    package init(path: String) throws(SettingsError) {
        let bytes = try readFile(path, maxBytes: Self.maxFileBytes)
        do throws(SettingsError) {
            try self.init(bytes, path)
        } catch {
            throw error.within(path)
        }
    }

    private init(_ bytes: [UInt8], _ path: String) throws(SettingsError) {
        let json = try SettingsObject(
            try parsed(bytes), at: "", known: ["certificateAuthorityFile", "endpoints"])
        guard let list = try json.list("endpoints") else { throw json.error("endpoints", "missing") }
        guard list.count <= Self.maxEndpoints else {
            throw json.error("endpoints", "more than \(Self.maxEndpoints)")
        }
        var endpoints: [WebhookEndpoint] = []
        for (index, value) in list.enumerated() {
            let place = "endpoints[\(index)]"
            let endpoint = try WebhookEndpoint(value, at: place, settings: path)
            guard !endpoints.contains(where: { $0.name == endpoint.name }) else {
                throw SettingsError("\(place).name: \(endpoint.name) stands twice")
            }
            endpoints.append(endpoint)
        }
        self.init(certificateAuthorityFile: try Self.authority(json, path), endpoints: endpoints)
    }

    private static func authority(_ json: SettingsObject, _ path: String) throws(SettingsError) -> String? {
        let key = "certificateAuthorityFile"
        guard let text = try json.string(key) else { return nil }
        let file = resolve(text, besides: path)
        guard access(file, R_OK) == 0 else {
            throw json.error(key, "\(shown(file)): \(String(cString: strerror(errno)))")
        }
        return file
    }
}

private func parsed(_ bytes: [UInt8]) throws(SettingsError) -> JSONValue {
    do throws(JSONError) {
        return try JSONParser.parse(bytes)
    } catch {
        let before = bytes.prefix(error.offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        // Characters count, not the bytes that go on with one.
        let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count { $0 & 0xC0 != 0x80 } + 1
        throw SettingsError("not JSON: \(error.reason) at line \(line), column \(column)")
    }
}
