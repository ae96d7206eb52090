import ServerURL

/// Where Redis is: `redis://[user[:password]@]host[:port][/db]`; `redis://:password@host` names no user.
public struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    public var host: String
    public var port: Int
    public var username: String?
    public var password: String?
    public var database: Int

    public init(host: String, port: Int = 6379, username: String? = nil, password: String? = nil, database: Int = 0) {
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.database = database
    }

    /// Nil when `url` is not of this form. User and password may be percent-encoded.
    public init?(url text: String) {
        guard let url = ServerURL(text), url.scheme == "redis" else { return nil }
        guard let database = url.path.isEmpty ? 0 : UInt16(url.path) else { return nil }
        self.init(
            host: url.host, port: url.port ?? 6379, username: url.username, password: url.password,
            database: Int(database))
    }

    /// Without the credentials: this goes into logs.
    public var description: String { "redis://\(ServerURL.authority(host: host, port: port))/\(database)" }
}
