import CallStore
import Support

/// The address of Redis (docs/redis-failover.md):
/// - `redis://[user[:password]@]host[:port][/db]` is a server; `redis://:password@host` has no user.
/// - `redis-sentinel://[user[:password]@]host[:port],host[:port]/MASTER[/db]` is the master that sentinels name. User and
///   password are those of the master.
/// - `rediss://…` and `rediss-sentinel://…` are the same with TLS, to the sentinels as well.
package struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    package var host: String
    package var port: Int
    package var username: String?
    package var password: String?
    package var database: Int
    /// The sentinels that name the server; nil for a server with a fixed address.
    package var sentinels: RedisSentinels?
    package var isSecure = false
    /// The PEM file of the authorities to trust with TLS; nil for the authorities of this system.
    package var certificateAuthorityFile: String?

    package init(host: String, port: Int = 6379, username: String? = nil, password: String? = nil, database: Int = 0) {
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.database = database
    }

    /// Parses `url`; returns nil when `url` has another form. User and password may be percent-encoded.
    package init?(url text: String) {
        if Self.sentinelSchemes.contains(where: text.hasPrefix) {
            guard let address = try? Self(sentinels: text) else { return nil }
            self = address
            return
        }
        guard let url = ServerURL(text), ["redis", "rediss"].contains(url.scheme) else { return nil }
        guard let database = url.path.isEmpty ? 0 : UInt16(url.path) else { return nil }
        self.init(
            host: url.host, port: url.port ?? 6379, username: url.username, password: url.password,
            database: Int(database))
        isSecure = url.scheme == "rediss"
    }

    /// The address without the credentials, for logs.
    package var description: String {
        let scheme = isSecure ? "rediss" : "redis"
        guard let sentinels else { return "\(scheme)://\(ServerURL.authority(host: host, port: port))/\(database)" }
        return "\(scheme)-sentinel://\(sentinels.description)/\(database)"
    }

    /// Returns the address of another server, reached and trusted in the same way, without credentials.
    func other(host: String, port: Int) -> RedisAddress {
        var other = RedisAddress(host: host, port: port)
        other.isSecure = isSecure
        other.certificateAuthorityFile = certificateAuthorityFile
        return other
    }
}

/// The sentinels of a master.
package struct RedisSentinels: Sendable, Equatable, CustomStringConvertible {
    package struct Server: Sendable, Hashable {
        package let host: String
        package let port: Int
    }

    /// At least one; each stands once.
    package let servers: [Server]
    /// The sentinels' name for the master.
    package let master: String

    package var description: String {
        let list = servers.map { ServerURL.authority(host: $0.host, port: $0.port) }
        return "\(list.joined(separator: ","))/\(master)"
    }
}

extension RedisAddress {
    package static let sentinelSchemes = ["redis-sentinel://", "rediss-sentinel://"]
    /// The greatest number of sentinels in an address.
    private static let mostSentinels = 32

    /// Returns the mistake in an address of sentinels, without credentials; nil for another address, and without a
    /// mistake.
    package static func mistake(in text: String) -> String? {
        guard sentinelSchemes.contains(where: text.hasPrefix) else { return nil }
        do throws(StoreError) {
            _ = try RedisAddress(sentinels: text)
            return nil
        } catch {
            return error.description
        }
    }

    /// Parses an address of sentinels. The error names the mistake, without credentials.
    private init(sentinels text: String) throws(StoreError) {
        let scheme = Self.sentinelSchemes.first(where: text.hasPrefix) ?? ""
        let rest = text.dropFirst(scheme.count)
        let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count) else {
            throw Self.mistake("expected host:port,host:port/MASTER, perhaps with /db")
        }
        let authority = parts[0]
        let at = authority.lastIndex(of: "@")
        let credentials = at.map { authority[...$0] } ?? ""
        let hosts = at.map { authority[authority.index(after: $0)...] } ?? authority
        var servers: [RedisSentinels.Server] = []
        var known: ServerURL?
        for host in hosts.split(separator: ",", omittingEmptySubsequences: false) {
            guard !host.isEmpty else { throw Self.mistake("an empty entry in the list of sentinels") }
            guard let url = ServerURL("redis://\(credentials)\(host)"), url.path.isEmpty else {
                throw Self.mistake("the entry \(servers.count + 1) of the list of sentinels is not host:port")
            }
            known = url
            let server = RedisSentinels.Server(host: url.host, port: url.port ?? 26379)
            guard !servers.contains(server) else {
                throw Self.mistake("\(ServerURL.authority(host: server.host, port: server.port)) stands twice")
            }
            servers.append(server)
        }
        guard servers.count <= Self.mostSentinels else {
            throw Self.mistake("more than \(Self.mostSentinels) sentinels")
        }
        let master = String(parts[1])
        guard (1...64).contains(master.utf8.count), master.utf8.allSatisfy(isNameByte) else {
            throw Self.mistake("expected the master's name, 1 to 64 of A-Z a-z 0-9 . _ -, behind the sentinels")
        }
        guard let database = parts.count == 3 ? UInt16(parts[2]) : 0 else {
            throw Self.mistake("the database is not a number from 0 to 65535")
        }
        self.init(
            host: servers[0].host, port: servers[0].port, username: known?.username, password: known?.password,
            database: Int(database))
        sentinels = RedisSentinels(servers: servers, master: master)
        isSecure = scheme == Self.sentinelSchemes[1]
    }

    private static func mistake(_ reason: String) -> StoreError { StoreError(.failed, reason) }
}

private func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
    default: false
    }
}
