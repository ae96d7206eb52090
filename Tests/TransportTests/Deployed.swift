import BellwireClient
import Foundation
import Synchronization
import TemporaryFiles
import Testing

/// Mosquitto, a coordinator of the `bellwire` that was built beside these tests, and a wire between them and the
/// clients, which can be cut.
final class Deployed: Site {
    private let carrier: Carrier
    // Only this object makes the directory and lets it go.
    private nonisolated(unsafe) let directory: TemporaryDirectory
    private let broker: Broker
    private let wire: Wire
    private let coordinator: Mutex<pid_t>
    private let command: [String]

    init(_ carrier: Carrier, _ timings: SiteTimings) throws {
        self.carrier = carrier
        directory = try TemporaryDirectory()
        broker = try Broker(directory)
        wire = try Wire(to: broker.port)
        command = [
            Self.executable, "serve", "--broker", "mqtt://127.0.0.1:\(broker.port)",
            "--store", "sqlite:\(directory.path)/bellwire.db", "--id", "coordinator",
            "--heartbeat-timeout", "\(timings.heartbeatTimeout.milliseconds)ms",
            "--heartbeat-interval", "\(timings.heartbeatInterval.milliseconds)ms",
        ]
        coordinator = Mutex(Spawner.shared.spawn(command))
    }

    deinit { Self.end(coordinator.withLock(\.self)) }

    /// The command is beside the bundle of these tests.
    private static var executable: String {
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
        let folder = bundle.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        // Where the runner names the file in the bundle, the folder is within the bundle.
        let outside = folder.prefix { !$0.hasSuffix(".xctest") }
        return (outside + ["bellwire"]).joined(separator: "/")
    }

    private static func end(_ process: pid_t) {
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
    }

    func configuration(user: String, device: String) -> SignalingClient.Configuration {
        SignalingClient.Configuration(
            user: UserID(user)!, device: DeviceID(device)!, transport: carrier.transport(wire.port))
    }

    func breakConnections(of user: String) { wire.cut(clientsWith: user + "/") }
    func goOffline() { wire.goOffline() }
    func goOnline() { wire.goOnline() }

    /// Kills the coordinator, and starts another coordinator on the same store.
    func replaceCoordinator() {
        coordinator.withLock { process in
            Self.end(process)
            process = Spawner.shared.spawn(command)
        }
    }
}

/// Passes on the bytes between clients and a broker.
private final class Wire: Sendable {
    private struct State {
        var isOffline = false
        var connections: [(clientID: String, peer: Peer)] = []
    }

    private let listener: Listener
    private let state: Shared
    var port: Int { listener.port }

    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    init(to broker: Int) throws {
        let shared = Shared()
        state = shared
        listener = try Listener { peer in
            let connect = peer.packet()
            guard let clientID = Self.clientID(connect), let server = Loopback.connected(to: broker) else {
                return peer.hangUp()
            }
            let isKept = shared.state.withLock { state in
                if !state.isOffline { state.connections.append((clientID, peer)) }
                return !state.isOffline
            }
            guard isKept else { return peer.hangUp() }
            let there = Peer(socket: server)
            there.send(connect)
            peer.relay(to: there)
        }
    }

    /// The client id in a CONNECT of MQTT 5 or 3.1.1: the id stands behind protocol name, level, flags and keep alive,
    /// and in MQTT 5 also behind the properties.
    private static func clientID(_ packet: [UInt8]) -> String? {
        guard packet.count > 14, packet[0] == 0x10 else { return nil }
        var place = packet[1] < 0x80 ? 2 : 3
        place += 10
        if packet[place - 4] == 5 { place += 1 + Int(packet[place]) }
        guard place + 2 < packet.count else { return nil }
        let length = Int(packet[place]) << 8 | Int(packet[place + 1])
        return String(decoding: packet[(place + 2)...].prefix(length), as: UTF8.self)
    }

    func cut(clientsWith prefix: String) {
        let cut = state.state.withLock { state in
            defer { state.connections.removeAll { $0.clientID.hasPrefix(prefix) } }
            return state.connections.filter { $0.clientID.hasPrefix(prefix) }
        }
        for connection in cut { connection.peer.hangUp() }
    }

    func goOffline() {
        state.state.withLock { $0.isOffline = true }
        cut(clientsWith: "")
    }

    func goOnline() { state.state.withLock { $0.isOffline = false } }
}

extension Peer {
    fileprivate func hangUp() { shutdown(socket, Int32(SHUT_RDWR)) }
}
