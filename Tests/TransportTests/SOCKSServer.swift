import Foundation
import Synchronization

/// A SOCKS 5 proxy (RFC 1928, with the passwords of RFC 1929) that takes every name for 127.0.0.1.
final class SOCKSServer: Sendable {
    private let listener: Listener
    private let log: Log

    var port: Int { listener.port }
    /// The destinations that the clients named.
    var asked: [String] { log.asked.withLock(\.self) }

    private final class Log: Sendable {
        let asked = Mutex<[String]>([])
    }

    init(password: String?) throws {
        let log = Log()
        self.log = log
        listener = try Listener { peer in
            guard Self.greet(peer, password), let (host, port) = Self.destination(peer) else { return }
            log.asked.withLock { $0.append("\(host):\(port)") }
            guard let server = Loopback.connected(to: port) else { return peer.send([5, 5, 0, 1, 0, 0, 0, 0, 0, 0]) }
            peer.send([5, 0, 0, 1, 127, 0, 0, 1, 0, 0])
            peer.relay(to: Peer(socket: server))
        }
    }

    private static func greet(_ peer: Peer, _ password: String?) -> Bool {
        let head = peer.receive(2)
        guard head.count == 2, head[0] == 5 else { return false }
        let method: UInt8 = password == nil ? 0 : 2
        guard peer.receive(Int(head[1])).contains(method) else { return false }
        peer.send([5, method])
        guard let password else { return true }
        _ = peer.receive(Int(peer.receive(2).last ?? 0))
        let isRight = peer.receive(Int(peer.receive(1).last ?? 0)) == Array(password.utf8)
        peer.send([1, isRight ? 0 : 1])
        return isRight
    }

    private static func destination(_ peer: Peer) -> (host: String, port: Int)? {
        let head = peer.receive(5)
        // The request is CONNECT, to a name.
        guard head.count == 5, head[1] == 1, head[3] == 3 else { return nil }
        let rest = peer.receive(Int(head[4]) + 2)
        guard rest.count == Int(head[4]) + 2 else { return nil }
        let port = Int(rest[rest.count - 2]) << 8 | Int(rest[rest.count - 1])
        return (String(decoding: rest.dropLast(2), as: UTF8.self), port)
    }
}
