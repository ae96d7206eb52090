import SignalingProtocol

/// A receiver of webhook events.
package struct WebhookEndpoint: Sendable {
    /// 1–64 characters of the id alphabet. The endpoint's outbox is kept under this name.
    package let name: String
    /// A new URL turns on an endpoint that was turned off.
    package let url: HTTPSURL
    /// A single secret, or two while a new secret replaces an old secret; each secret makes a signature.
    package let secrets: [WebhookSecret]
    package let events: EventPatterns
    package let format: WebhookFormat
    /// How long an event is tried again after its first attempt, in seconds.
    package let retryFor: Int
    /// The bound of waiting events; beyond this bound the oldest events become dead letters.
    package let backlog: Int
    /// The bound in bytes of waiting events and dead letters together; beyond this bound the users with the most bytes
    /// lose events first.
    package let backlogBytes: Int
    /// The networks in which the URL may lead to private addresses and to any port, in the operator's notation.
    package let allowedNetworks: [String]

    package static let standardRetryFor = 86_400
    package static let retryForRange = 0...30 * 86_400
    package static let standardBacklog = 100_000
    package static let backlogRange = 1...10_000_000
    package static let standardBacklogBytes = 64 << 20
    package static let backlogBytesRange = 64 << 10...16 << 30

    package init(
        name: String, url: HTTPSURL, secrets: [WebhookSecret], events: EventPatterns,
        format: WebhookFormat = .standard, retryFor: Int = standardRetryFor, backlog: Int = standardBacklog,
        backlogBytes: Int = standardBacklogBytes, allowedNetworks: [String] = []
    ) {
        self.name = name
        self.url = url
        self.secrets = secrets
        self.events = events
        self.format = format
        self.retryFor = retryFor
        self.backlog = backlog
        self.backlogBytes = backlogBytes
        self.allowedNetworks = allowedNetworks
    }
}

extension WebhookEndpoint {
    private static let fields = [
        "name", "url", "secretFile", "events", "format", "retryFor", "backlog", "backlogBytes", "allowedNetworks",
    ]

    /// - Parameter settings: the path of the settings file.
    init(_ value: JSONValue, at place: String, settings: String) throws(SettingsError) {
        let json = try SettingsObject(value, at: place, known: Self.fields)
        self.init(
            name: try Self.name(json), url: try Self.url(json), secrets: try Self.secrets(json, settings),
            events: try Self.events(json), format: try Self.format(json),
            retryFor: try json.integer("retryFor", in: Self.retryForRange, default: Self.standardRetryFor, "seconds"),
            backlog: try json.integer("backlog", in: Self.backlogRange, default: Self.standardBacklog, "events"),
            backlogBytes: try json.integer(
                "backlogBytes", in: Self.backlogBytesRange, default: Self.standardBacklogBytes, "bytes"),
            allowedNetworks: try json.strings("allowedNetworks") ?? [])
    }

    private static func name(_ json: SettingsObject) throws(SettingsError) -> String {
        let name = try json.requiredString("name")
        guard isToken(name) else { throw json.error("name", "expected 1 to 64 of A-Z a-z 0-9 _ -") }
        return name
    }

    private static func url(_ json: SettingsObject) throws(SettingsError) -> HTTPSURL {
        let text = try json.requiredString("url")
        do throws(SettingsError) { return try HTTPSURL(text) } catch { throw json.error("url", error.description) }
    }

    private static func secrets(_ json: SettingsObject, _ settings: String) throws(SettingsError) -> [WebhookSecret] {
        let path = try json.requiredString("secretFile")
        guard !path.isEmpty, !path.hasPrefix(WebhookSecret.prefix) else {
            throw json.error("secretFile", "expected the path of a file that holds the secret, not the secret itself")
        }
        do throws(SettingsError) {
            return try WebhookSecret.read(file: resolve(path, besides: settings))
        } catch {
            throw json.error("secretFile", error.description)
        }
    }

    private static func events(_ json: SettingsObject) throws(SettingsError) -> EventPatterns {
        guard let patterns = try json.strings("events") else { throw json.error("events", "missing") }
        let known = EventPatterns.known.joined(separator: ", ")
        if let index = patterns.firstIndex(where: { !EventPatterns.known.contains($0) }) {
            throw json.error("events[\(index)]", "unknown pattern \(shown(patterns[index])); known are \(known)")
        }
        guard let events = EventPatterns(patterns) else { throw json.error("events", "expected some of \(known)") }
        return events
    }

    private static func format(_ json: SettingsObject) throws(SettingsError) -> WebhookFormat {
        guard let text = try json.string("format") else { return .standard }
        guard let format = WebhookFormat(rawValue: text) else {
            throw json.error("format", "expected \(WebhookFormat.allCases.map(\.rawValue).joined(separator: " or "))")
        }
        return format
    }
}
