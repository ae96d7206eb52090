import Basics
import SignalingProtocol
import Support
import Tokens

extension MediaServer {
    private static let common = ["type", "url", "keyFile", "room", "ttl"]
    private static let mostURLBytes = 2_048
    private static let mostTextBytes = 256
    private static let mostAgents = 16
    /// The bound of the template of all claims, as JSON.
    private static let mostClaimBytes = 4_096

    private static func own(_ kind: Kind) -> [String] {
        switch kind {
        case .liveKit: ["apiURL", "agents"]
        case .jitsi: ["appID", "audience", "subject", "keyID"]
        case .jwt: ["algorithm", "keyID", "claims"]
        }
    }

    /// - Parameters:
    ///   - place: the position of the server within the settings file, for error messages.
    ///   - settings: the path of the settings file.
    init(_ name: String, _ value: JSONValue, at place: String, settings: String) throws(SettingsError) {
        let all = Kind.allCases.flatMap(Self.own)
        let type = try SettingsObject(value, at: place, known: Self.common + all).requiredString("type")
        guard let kind = Kind(rawValue: type) else {
            let json = try SettingsObject(value, at: place, known: Self.common + all)
            throw json.error("type", "expected \(Kind.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        let json = try SettingsObject(value, at: place, known: Self.common + Self.own(kind))
        let url = try Self.url(json, "url", kind == .liveKit ? ["ws", "wss"] : ["http", "https"])
        self.init(
            name: name, url: url.text, key: try Self.key(json, kind, settings), room: try Self.room(json),
            ttl: try json.integer("ttl", in: Self.ttlRange, default: Self.standardTTL, "seconds"),
            details: try Self.details(json, kind, host: url.host, at: place))
    }

    private static func details(
        _ json: SettingsObject, _ kind: Kind, host: String, at place: String
    ) throws(SettingsError) -> Details {
        switch kind {
        case .liveKit: return .liveKit(apiURL: try apiURL(json), agents: try agents(json))
        case .jitsi:
            guard let appID = try text(json, "appID") else { throw json.error("appID", "missing") }
            return .jitsi(
                appID: appID, audience: try text(json, "audience") ?? "jitsi",
                subject: try text(json, "subject") ?? host, keyID: try text(json, "keyID"))
        case .jwt: return .jwt(keyID: try text(json, "keyID"), claims: try claims(json, at: place))
        }
    }

    private static func text(_ json: SettingsObject, _ key: String) throws(SettingsError) -> String? {
        guard let text = try json.string(key) else { return nil }
        guard isPlain(text) else { throw json.error(key, "expected 1 to \(mostTextBytes) bytes of text") }
        return text
    }

    private static func isPlain(_ text: String) -> Bool {
        (1...mostTextBytes).contains(text.utf8.count)
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    // MARK: URLs

    private static func url(
        _ json: SettingsObject, _ key: String, _ schemes: [String]
    ) throws(SettingsError) -> (text: String, host: String) {
        let text = try json.requiredString(key)
        let expected = schemes.map { "\($0)://…" }.joined(separator: " or ")
        guard text.utf8.count <= mostURLBytes else { throw json.error(key, "longer than \(mostURLBytes) bytes") }
        guard let url = ServerURL(text), schemes.contains(url.scheme),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) })
        else { throw json.error(key, "expected \(expected), a host, and perhaps a port and a path") }
        guard url.username == nil, url.password == nil else {
            throw json.error(key, "user and password have no place in this URL: the token admits a device")
        }
        return (text, url.host)
    }

    private static func apiURL(_ json: SettingsObject) throws(SettingsError) -> String? {
        guard try json.string("apiURL") != nil else { return nil }
        var text = try url(json, "apiURL", ["http", "https"]).text
        guard !text.utf8.contains(where: { "?#".utf8.contains($0) }) else {
            throw json.error("apiURL", "the URL of an API has no query (?) and no fragment (#)")
        }
        while text.hasSuffix("/") { text.removeLast() }
        return text
    }

    // MARK: Rooms and claims

    private static func room(_ json: SettingsObject) throws(SettingsError) -> MediaTemplate {
        let key = "room"
        let text = try json.string(key) ?? "{callID}"
        let template: MediaTemplate
        do throws(SettingsError) {
            template = try MediaTemplate(text, known: [.callID, .mode])
        } catch {
            throw json.error(key, error.description)
        }
        guard template.contains(.callID) else {
            throw json.error(key, "expected a text with {callID}, so that two calls never share a room")
        }
        let longest = template.filled { placeholder in
            String(repeating: "x", count: placeholder == .callID ? 64 : CallMode.advanced.rawValue.utf8.count)
        }
        guard longest.utf8.count <= mostRoomBytes else {
            throw json.error(key, "longer than \(mostRoomBytes) bytes when filled in: a callID has up to 64")
        }
        guard !longest.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            throw json.error(key, "a control character")
        }
        return template
    }

    private static func agents(_ json: SettingsObject) throws(SettingsError) -> [String] {
        let agents = try json.strings("agents") ?? []
        guard agents.count <= mostAgents else { throw json.error("agents", "more than \(mostAgents)") }
        for (index, agent) in agents.enumerated() where !isPlain(agent) {
            throw json.error("agents[\(index)]", "expected 1 to \(mostTextBytes) bytes of text")
        }
        return agents
    }

    private static func claims(
        _ json: SettingsObject, at place: String
    ) throws(SettingsError) -> [ClaimTemplate.Field] {
        var fields: [ClaimTemplate.Field] = []
        for (name, value) in try json.named("claims") ?? [] {
            guard !["iat", "nbf", "exp"].contains(name) else {
                throw json.error("claims.\(name)", "Bellwire sets this claim")
            }
            let claim = try ClaimTemplate(value, at: "\(place).claims.\(shown(name))")
            fields.append(ClaimTemplate.Field(name: name, value: claim))
        }
        let size = ClaimTemplate.object(fields).json { "{\($0.rawValue)}" }.count
        guard size <= mostClaimBytes else { throw json.error("claims", "more than \(mostClaimBytes) bytes of JSON") }
        return fields
    }

    // MARK: Keys

    private static func key(
        _ json: SettingsObject, _ kind: Kind, _ settings: String
    ) throws(SettingsError) -> MediaKeyFile {
        let path = try json.requiredString("keyFile")
        guard !path.isEmpty, !path.utf8.contains(where: { $0 < 0x20 }), !path.contains("-----BEGIN ") else {
            throw json.error("keyFile", "expected the path of a file that holds the key, not the key itself")
        }
        let read = try reader(json, kind)
        do throws(SettingsError) {
            return try MediaKeyFile(resolve(path, besides: settings), read)
        } catch {
            throw json.error("keyFile", error.description)
        }
    }

    private static func reader(
        _ json: SettingsObject, _ kind: Kind
    ) throws(SettingsError) -> @Sendable ([UInt8]) throws(SettingsError) -> MediaKey {
        switch kind {
        case .liveKit: return { file throws(SettingsError) in try MediaKey.liveKit(file) }
        case .jitsi:
            let hasKeyID = try json.string("keyID") != nil
            return { file throws(SettingsError) in
                guard MediaKey.isPEM(file) else { return try MediaKey.key(file, .hs256) }
                guard hasKeyID else { throw SettingsError("a key in PEM (RS256) needs a keyID") }
                return try MediaKey.key(file, .rs256)
            }
        case .jwt:
            let text = try json.requiredString("algorithm")
            guard let algorithm = SignatureAlgorithm(rawValue: text) else {
                let known = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
                throw json.error("algorithm", "expected one of \(known)")
            }
            return { file throws(SettingsError) in try MediaKey.key(file, algorithm) }
        }
    }
}
