import Basics
import CallStore
import Support

/// The address of Redis (docs/redis-failover.md):
/// - `redis://[user[:password]@]host[:port][/db]` is a server; `redis://:password@host` has no user.
/// - `redis-sentinel://[user[:password]@]host[:port],host[:port]/MASTER[/db]` is the master that sentinels name. User
///   and password are those of the master.
/// - `redis-cluster://[user[:password]@]host[:port],host[:port]` is a Redis Cluster with these servers and others. User
///   and password are those of all servers.
/// - `rediss://…`, `rediss-sentinel://…` and `rediss-cluster://…` are the same with TLS, to the sentinels as well.
package struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    package struct Server: Sendable, Hashable, CustomStringConvertible {
        package let host: String
        package let port: Int

        package var description: String { ServerURL.authority(host: host, port: port) }
    }

    package var host: String
    package var port: Int
    package var username: String?
    package var password: String?
    package var database: Int
    /// The sentinels that name the server; nil for other addresses.
    package var sentinels: RedisSentinels?
    /// Servers of a cluster, at least one; nil for other addresses.
    package var cluster: [Server]?
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
        if ServerList.scheme(of: text) != nil {
            guard let address = try? Self(list: text) else { return nil }
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
        if let sentinels { return "\(scheme)-sentinel://\(sentinels.description)/\(database)" }
        if let cluster { return "\(scheme)-cluster://\(cluster.map(\.description).joined(separator: ","))" }
        return "\(scheme)://\(ServerURL.authority(host: host, port: port))/\(database)"
    }

    /// Returns the address of another server, reached and trusted in the same way, without credentials.
    func other(host: String, port: Int) -> RedisAddress {
        var other = RedisAddress(host: host, port: port)
        other.isSecure = isSecure
        other.certificateAuthorityFile = certificateAuthorityFile
        return other
    }

    /// Returns the address of a server of this cluster.
    func server(_ server: Server) -> RedisAddress {
        var address = other(host: server.host, port: server.port)
        (address.username, address.password) = (username, password)
        return address
    }
}

/// The sentinels of a master.
package struct RedisSentinels: Sendable, Equatable, CustomStringConvertible {
    /// The sentinels, at least one, without repetition.
    package let servers: [RedisAddress.Server]
    /// The sentinels' name for the master.
    package let master: String

    package var description: String { "\(servers.map(\.description).joined(separator: ","))/\(master)" }
}

/// The parts of an address with a list of servers.
private struct ServerList {
    /// The schemes with a list, and the names of the entries in errors.
    static let schemes = [
        "redis-sentinel://": "sentinels", "rediss-sentinel://": "sentinels", "redis-cluster://": "servers",
        "rediss-cluster://": "servers",
    ]
    private static let most = 32

    static func scheme(of text: String) -> (scheme: String, entries: String)? {
        schemes.first { text.hasPrefix($0.key) }.map { ($0.key, $0.value) }
    }

    var servers: [RedisAddress.Server] = []
    private(set) var username: String?
    private(set) var password: String?

    /// Parses `[user[:password]@]host[:port],host[:port]`. The error names the mistake, without credentials.
    init(_ authority: Substring, entries: String, defaultPort: Int) throws(StoreError) {
        let at = authority.lastIndex(of: "@")
        let credentials = at.map { authority[...$0] } ?? ""
        let hosts = at.map { authority[authority.index(after: $0)...] } ?? authority
        for host in hosts.split(separator: ",", omittingEmptySubsequences: false) {
            guard !host.isEmpty else { throw RedisAddress.mistake("an empty entry in the list of \(entries)") }
            guard let url = ServerURL("redis://\(credentials)\(host)"), url.path.isEmpty else {
                throw RedisAddress.mistake("the entry \(servers.count + 1) of the list of \(entries) is not host:port")
            }
            (username, password) = (url.username, url.password)
            let server = RedisAddress.Server(host: url.host, port: url.port ?? defaultPort)
            guard !servers.contains(server) else { throw RedisAddress.mistake("\(server) stands twice") }
            servers.append(server)
        }
        guard servers.count <= Self.most else { throw RedisAddress.mistake("more than \(Self.most) \(entries)") }
    }
}

extension RedisAddress {
    /// Returns the mistake in an address with a list of servers, without credentials; nil for another address, and
    /// without a mistake.
    package static func mistake(in text: String) -> String? {
        guard ServerList.scheme(of: text) != nil else { return nil }
        do throws(StoreError) {
            _ = try RedisAddress(list: text)
            return nil
        } catch {
            return error.description
        }
    }

    /// Parses an address with a list of servers. The error names the mistake, without credentials.
    private init(list text: String) throws(StoreError) {
        guard let (scheme, entries) = ServerList.scheme(of: text) else { throw Self.mistake("another scheme") }
        let parts = text.dropFirst(scheme.count).split(separator: "/", omittingEmptySubsequences: false)
        if entries == "sentinels" {
            guard (2...3).contains(parts.count) else {
                throw Self.mistake("expected host:port,host:port/MASTER, perhaps with /db")
            }
            let list = try ServerList(parts[0], entries: entries, defaultPort: 26379)
            let master = String(parts[1])
            guard (1...64).contains(master.utf8.count), master.utf8.allSatisfy(isNameByte) else {
                throw Self.mistake("expected the master's name, 1 to 64 of A-Z a-z 0-9 . _ -, behind the sentinels")
            }
            guard let database = parts.count == 3 ? UInt16(parts[2]) : 0 else {
                throw Self.mistake("the database is not a number from 0 to 65535")
            }
            self.init(list, database: Int(database))
            sentinels = RedisSentinels(servers: list.servers, master: master)
        } else {
            guard parts.count == 1 else {
                throw Self.mistake("a Redis Cluster has no numbered databases: leave out the /db")
            }
            let list = try ServerList(parts[0], entries: entries, defaultPort: 6379)
            self.init(list, database: 0)
            cluster = list.servers
        }
        isSecure = scheme.hasPrefix("rediss")
    }

    private init(_ list: ServerList, database: Int) {
        self.init(
            host: list.servers[0].host, port: list.servers[0].port, username: list.username, password: list.password,
            database: database)
    }

    fileprivate static func mistake(_ reason: String) -> StoreError { StoreError(.failed, reason) }
}

private func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
    default: false
    }
}
