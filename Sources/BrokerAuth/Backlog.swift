/// How far a client's socket is, as the kernel sees it.
package struct SocketProgress: Equatable, Sendable {
    /// Bytes that the broker has written to it so far.
    package let written: UInt64
    /// All of it has arrived at the client's machine: nothing waits in the kernel, so nothing waits for the socket.
    package let isDrained: Bool

    package init(written: UInt64, isDrained: Bool) {
        self.written = written
        self.isDrained = isDrained
    }
}

/// What the broker holds for one client: what was to be delivered, less what its socket has taken. mosquitto bounds by bytes only
/// what waits for the acknowledgment of a QoS 1 client; to a QoS 0 client that does not read it keeps 100,000 messages of any size.
struct Backlog {
    /// The socket is looked at whenever so much has been delivered: a look costs as much as writing a packet.
    static let lookEvery: Int64 = 64 << 10
    /// What mosquitto drops by itself (a second copy of a message for MQTT 3.1.1, what is too large for the client, what has
    /// expired) never reaches the socket. It is forgotten at this rate, in bytes per second, while the socket is drained.
    static let forgettingRate: Int64 = 4 << 10

    private(set) var waiting: Int64 = 0
    private var sinceLook: Int64 = 0
    private var last: (written: UInt64, at: Int64)?

    /// Counts a delivery. `now` in milliseconds. False when more than `limit` waits.
    mutating func add(_ bytes: Int, limit: Int64, now: () -> Int64, socket: () -> SocketProgress?) -> Bool {
        waiting += Int64(bytes)
        sinceLook += Int64(bytes)
        guard sinceLook >= Self.lookEvery || waiting > limit else { return true }
        look(socket(), now())
        return waiting <= limit
    }

    private mutating func look(_ socket: SocketProgress?, _ now: Int64) {
        sinceLook = 0
        // Without sight of the socket nothing is known, and mosquitto's own bounds must do.
        guard let socket else { return waiting = 0 }
        defer { last = (socket.written, now) }
        guard let last else { return }
        waiting -= Int64(clamping: socket.written &- last.written)
        if socket.isDrained { waiting -= Self.forgettingRate * min(max(0, now - last.at), 3_600_000) / 1_000 }
        waiting = max(0, waiting)
    }
}
