/// The progress of a client's socket, as the kernel reports it.
package struct SocketProgress: Equatable, Sendable {
    /// The bytes that the broker has written to the socket so far.
    package let written: UInt64
    /// Whether all bytes have arrived at the client's machine. The kernel then holds no bytes for the client, and the
    /// broker does not wait for the socket.
    package let isDrained: Bool

    package init(written: UInt64, isDrained: Bool) {
        self.written = written
        self.isDrained = isDrained
    }
}

/// The bytes that the broker holds for a client: its deliveries, less the bytes that its socket has taken. mosquitto
/// bounds bytes only for messages that await the acknowledgment of a QoS 1 client; for a QoS 0 client that does not
/// read, mosquitto keeps 100,000 messages of any size.
struct Backlog {
    /// The socket is checked after this number of delivered bytes: a check costs as much as writing a packet.
    static let lookEvery: Int64 = 64 << 10
    /// The rate at which waiting bytes are forgotten while the socket is drained, in bytes per second. Messages that
    /// mosquitto drops by itself never reach the socket: a second copy for MQTT 3.1.1, messages that are too large for
    /// the client, and expired messages.
    static let forgettingRate: Int64 = 4 << 10

    private(set) var waiting: Int64 = 0
    private var sinceLook: Int64 = 0
    private var last: (written: UInt64, at: Int64)?

    /// Counts a delivery. `now` returns milliseconds. Returns false when more than `limit` bytes wait.
    mutating func add(_ bytes: Int, limit: Int64, now: () -> Int64, socket: () -> SocketProgress?) -> Bool {
        waiting += Int64(bytes)
        sinceLook += Int64(bytes)
        guard sinceLook >= Self.lookEvery || waiting > limit else { return true }
        look(socket(), now())
        return waiting <= limit
    }

    private mutating func look(_ socket: SocketProgress?, _ now: Int64) {
        sinceLook = 0
        // When the socket cannot be checked, the number of waiting bytes is unknown, and mosquitto's own bounds must
        // suffice.
        guard let socket else { return waiting = 0 }
        defer { last = (socket.written, now) }
        guard let last else { return }
        waiting -= Int64(clamping: socket.written &- last.written)
        if socket.isDrained { waiting -= Self.forgettingRate * min(max(0, now - last.at), 3_600_000) / 1_000 }
        waiting = max(0, waiting)
    }
}
