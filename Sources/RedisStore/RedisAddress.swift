import CallStore
import Support

/// The address of Redis: `redis://[user[:password]@]host[:port][/db]`; `redis://:password@host` has no user.
package struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    package var host: String
    package var port: Int
    package var username: String?
    package var password: String?
    package var database: Int

    package init(host: String, port: Int = 6379, username: String? = nil, password: String? = nil, database: Int = 0) {
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.database = database
    }

    /// Parses `url`; returns nil when `url` has another form. User and password may be percent-encoded.
    package init?(url text: String) {
        guard let url = ServerURL(text), url.scheme == "redis" else { return nil }
        guard let database = url.path.isEmpty ? 0 : UInt16(url.path) else { return nil }
        self.init(
            host: url.host, port: url.port ?? 6379, username: url.username, password: url.password,
            database: Int(database))
    }

    /// The address without the credentials, for logs.
    package var description: String { "redis://\(ServerURL.authority(host: host, port: port))/\(database)" }
}
