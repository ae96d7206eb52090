import CallCore
import SignalingProtocol
import Support
import Tokens

/// The file of `--media` (docs/media.md, Settings), with the keys from the key files.
package struct MediaSettings: Sendable {
    package static let mostServers = 64
    package static let mostUses = 64

    /// The PEM file of the certificate authorities for the servers' APIs; nil for the authorities that the system
    /// trusts.
    package let certificateAuthorityFile: String?
    /// The servers in the order of the file.
    package let servers: [MediaServer]
    package let use: MediaUse

    /// Reads the whole file. Throws the first mistake, with its place, in one sentence.
    package init(path: String) throws(SettingsError) {
        let known = ["certificateAuthorityFile", "servers", "use"]
        self = try readSettings(path, known: known) { json throws(SettingsError) in try Self(json, path) }
    }

    /// Creates settings with a single LiveKit server for all calls, for simulations.
    package init(liveKit name: String, url: String, apiURL: String, key: String, secret: String) {
        certificateAuthorityFile = nil
        guard let room = try? MediaTemplate("{callID}") else { preconditionFailure("{callID} is a template") }
        servers = [
            MediaServer(
                name: name, url: url, key: MediaKeyFile(.named(key, CryptographicKey(secret: Array(secret.utf8)))),
                room: room, ttl: MediaServer.standardTTL, details: .liveKit(apiURL: apiURL, agents: []))
        ]
        use = MediaUse([], other: name)
    }

    private init(_ json: SettingsObject, _ path: String) throws(SettingsError) {
        guard let list = try json.named("servers") else { throw json.error("servers", "missing") }
        guard list.count <= Self.mostServers else { throw json.error("servers", "more than \(Self.mostServers)") }
        var servers: [MediaServer] = []
        for (name, value) in list {
            guard isToken(name) else {
                throw json.error("servers", "\(shown(name)): expected a name of 1 to 64 of A-Z a-z 0-9 _ -")
            }
            servers.append(try MediaServer(name, value, at: "servers.\(name)", settings: path))
        }
        certificateAuthorityFile = try json.file("certificateAuthorityFile", besides: path)
        self.servers = servers
        use = try Self.use(json, servers)
    }

    private static func use(_ json: SettingsObject, _ servers: [MediaServer]) throws(SettingsError) -> MediaUse {
        guard let list = try json.named("use") else { throw json.error("use", "missing") }
        guard list.count <= mostUses else { throw json.error("use", "more than \(mostUses)") }
        var named: [(media: String, server: String)] = []
        var other: String?
        for (media, value) in list {
            let place = "use.\(shown(media))"
            guard media.utf8.count <= Limits.mediaBytes else {
                throw json.error(place, "no call has a media of more than \(Limits.mediaBytes) bytes")
            }
            guard let server = value.string else { throw json.error(place, "expected the name of a server") }
            guard servers.contains(where: { $0.name == server }) else {
                throw json.error(place, "there is no server \(shown(server)) in servers")
            }
            if media == "*" { other = server } else { named.append((media, server)) }
        }
        return MediaUse(named, other: other)
    }

    /// Returns the session of a member, with a token that is made at `now`; nil for a call without a media server.
    package func session(for member: MediaMember, at now: WallTime) -> BellwireMediaSession? {
        guard let name = use.server(for: member.media) else { return nil }
        return servers.first { $0.name == name }?.session(for: member, at: now)
    }

    /// The outboxes of the rooms that are closed.
    package var outboxes: [KeptEndpoint] {
        servers.compactMap { server in
            guard let apiURL = server.apiURL, let name = EndpointName.rooms(of: server.name),
                let patterns = use.patterns(ofRoomsAt: server.name)
            else { return nil }
            return KeptEndpoint(name: name, patterns: patterns, url: apiURL)
        }
    }

    package var keyFiles: [MediaKeyFile] { servers.map(\.key) }
}
