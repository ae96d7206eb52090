import CallStore
import FoundationEssentials
import Glibc

@testable import RedisStore

/// A Redis Cluster of the tests' own on loopback: three masters, shared by all tests.
final class RedisClusterServers: Sendable {
    let address: RedisAddress
    let servers: [RedisServer]

    /// The servers start with the first test that needs them.
    static let shared = Result { try RedisClusterServers() }

    init() throws {
        servers = try (0..<3).map { _ in
            let file = "bellwire-\(UUID().uuidString).conf"
            return try RedisServer(arguments: [
                "--cluster-enabled", "yes", "--cluster-config-file", file, "--cluster-node-timeout", "5000",
                "--cluster-port", String(RedisServer.freePort()),
            ])
        }
        let list = servers.map { "127.0.0.1:\($0.address.port)" }.joined(separator: ",")
        address = RedisAddress(url: "redis-cluster://\(list)")!
        for (place, server) in servers.enumerated() {
            let first = RedisSlot.count * place / 3
            let last = RedisSlot.count * (place + 1) / 3 - 1
            try server.cluster("ADDSLOTSRANGE", String(first), String(last))
        }
        let meeting = try servers[0].busPort()
        for server in servers[1...] {
            try server.cluster("MEET", "127.0.0.1", String(servers[0].address.port), meeting)
        }
        let deadline = ContinuousClock.now + .seconds(20)
        while try !servers.allSatisfy({ try $0.knowsWholeCluster() }) {
            guard ContinuousClock.now < deadline else { throw StoreError(.unreachable, "no cluster within 20 s") }
            usleep(20_000)
        }
    }
}

extension RedisServer {
    /// The port for the other servers of the cluster. The server names itself as "host:port@busPort".
    fileprivate func busPort() throws -> String {
        let nodes = try cluster("NODES").bytes?.text ?? ""
        let address = nodes.split(separator: " ")[1]
        return String(address.split(separator: "@")[1].prefix { $0.isNumber })
    }

    fileprivate func knowsWholeCluster() throws -> Bool {
        let info = try cluster("INFO").bytes?.text ?? ""
        return info.contains("cluster_state:ok") && info.contains("cluster_size:3")
    }
}
