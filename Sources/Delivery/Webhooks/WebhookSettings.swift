/// The file of `--webhooks` (docs/webhooks.md, Settings), with the secrets from the secret files.
package struct WebhookSettings: Sendable {
    package static let maxEndpoints = 64

    /// The PEM file of the certificate authorities for endpoints; nil for the authorities that the system trusts.
    package let certificateAuthorityFile: String?
    /// The endpoints in the order of the file.
    package let endpoints: [WebhookEndpoint]

    package init(certificateAuthorityFile: String?, endpoints: [WebhookEndpoint]) {
        self.certificateAuthorityFile = certificateAuthorityFile
        self.endpoints = endpoints
    }

    /// Reads the whole file. Throws the first mistake, with its place, in one sentence.
    package init(path: String) throws(SettingsError) {
        self = try readSettings(path, known: ["certificateAuthorityFile", "endpoints"]) { json throws(SettingsError) in
            try Self(json, path)
        }
    }

    private init(_ json: SettingsObject, _ path: String) throws(SettingsError) {
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
        self.init(
            certificateAuthorityFile: try json.file("certificateAuthorityFile", besides: path), endpoints: endpoints)
    }
}
