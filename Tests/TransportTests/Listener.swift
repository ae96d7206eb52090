import Foundation
import Synchronization

/// A server that treats each connection as a test says, on a thread of its own.
final class Listener: Sendable {
    let port: Int
    private let sockets = Mutex<[Int32]>([])

    init(_ serve: @escaping @Sendable (Peer) -> Void) throws {
        let (listener, port) = try Loopback.listener()
        self.port = port
        sockets.withLock { $0.append(listener) }
        Thread.detachNewThread { [weak self] in
            while case let socket = accept(listener, nil, nil), socket >= 0 {
                let isKept = self?.sockets.withLock { $0.append(socket) } != nil
                guard isKept else { return }
                Thread.detachNewThread { serve(Peer(socket: socket)) }
            }
        }
    }

    deinit { cut() }

    /// Ends all connections without a word, and takes no further connections.
    func cut() {
        // The sockets are not closed: a thread may be about to use them.
        for socket in sockets.withLock(\.self) { shutdown(socket, Int32(SHUT_RDWR)) }
    }

    /// Passes on to `port`.
    static func relay(to port: Int) throws -> Listener {
        try Listener { peer in
            if let server = Loopback.connected(to: port) { peer.relay(to: Peer(socket: server)) }
        }
    }
}

/// The other end of a connection.
struct Peer: Sendable {
    let socket: Int32

    func send(_ bytes: [UInt8]) { _ = Foundation.send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }

    /// Exactly `count` bytes; fewer at the end.
    func receive(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let got = recv(socket, &bytes, count, Int32(MSG_WAITALL))
        return Array(bytes.prefix(max(0, got)))
    }

    /// An MQTT packet of less than 16 KiB; empty at the end.
    func packet() -> [UInt8] {
        var head = receive(2)
        guard head.count == 2 else { return [] }
        var length = Int(head[1] & 0x7F)
        if head[1] >= 0x80 {
            head += receive(1)
            length += Int(head[2]) << 7
        }
        return head + receive(length)
    }

    /// Passes on the bytes of both ends until an end is over; then both ends are over.
    func relay(to other: Peer) {
        Thread.detachNewThread { other.pump(to: self) }
        pump(to: other)
    }

    private func pump(to other: Peer) {
        var bytes = [UInt8](repeating: 0, count: 16 * 1024)
        while case let count = recv(socket, &bytes, bytes.count, 0), count > 0 {
            other.send(Array(bytes.prefix(count)))
        }
        shutdown(socket, Int32(SHUT_RDWR))
        shutdown(other.socket, Int32(SHUT_RDWR))
    }
}
