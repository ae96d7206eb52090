import CallCore
import CallStore
import Coordinator
import RedisStore
import SQLiteStore
import Support

/// The address of a store: `memory:`, `sqlite:PATH`, `redis://[user:password@]host:port[/db]` or
/// `redis-sentinel://[user:password@]host:port,host:port/MASTER[/db]`.
package enum StoreAddress: CustomStringConvertible {
    case memory
    case sqlite(path: String)
    case redis(RedisAddress)

    static let forms =
        "memory:, sqlite:PATH, redis://[user:password@]host:port[/db], "
        + "redis-sentinel://[user:password@]host:port,host:port/MASTER[/db] or "
        + "redis-cluster://[user:password@]host:port,host:port; rediss… with TLS"

    /// Returns nil for a text without any of the `forms`.
    package init?(_ text: String) {
        if text == "memory:" {
            self = .memory
        } else if text.hasPrefix("sqlite:"), text.count > "sqlite:".count {
            self = .sqlite(path: String(text.dropFirst("sqlite:".count)))
        } else if let address = RedisAddress(url: text) {
            self = .redis(address)
        } else {
            return nil
        }
    }

    /// The address without credentials.
    package var description: String {
        switch self {
        case .memory: "memory:"
        case .sqlite(let path): "sqlite:\(path)"
        case .redis(let address): address.description
        }
    }

    /// The further options of a store.
    package struct Options {
        package init() {}

        var synchronous = SQLiteCallStore.Synchronous.normal
        var redisPrefix = "bellwire"
        var waitReplicas = 0
        var historyPerUser = Retention.historyPerUser
        /// The deployment's stamp (`DeploymentStamp`), by which the store is checked; nil allows any stamp.
        var stamp: DeploymentStamp?
        /// Whether another process serves the store. This process must then not keep the other process waiting.
        var isVisited = false
    }

    package func open(_ options: Options = Options(), _ settings: ServiceSettings = ServiceSettings()) throws
        -> any CallStore
        & OutboxStore & AdminStore
    {
        let lease = settings.presence.lease
        switch self {
        case .memory:
            return MemoryCallStore(
                historyPerUser: options.historyPerUser, lease: lease, clock: { SystemClock.wall.milliseconds })
        case .sqlite(let path):
            return try SQLiteCallStore(
                path: path, stamp: options.stamp, synchronous: options.synchronous,
                historyPerUser: options.historyPerUser, lease: lease, isVisited: options.isVisited)
        case .redis(let address):
            let store = RedisCallStore(
                address: address, prefix: options.redisPrefix, stamp: options.stamp, waitReplicas: options.waitReplicas,
                historyPerUser: options.historyPerUser, historyRetention: settings.historyRetention, lease: lease)
            try store.refuseForeign()
            return store
        }
    }
}
