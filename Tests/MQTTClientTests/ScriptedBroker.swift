import Glibc

@testable import MQTTClient
@testable import MQTTProtocol

/// A broker that does as a test says, on the test's own thread.
final class ScriptedBroker {
    private let listener: Int32
    private var client: Int32 = -1
    let port: Int
    private var received: [UInt8] = []

    init() {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length)
                listen(listener, 5)
                getsockname(listener, address, &length)
            }
            return Int(UInt16(bigEndian: pointer.pointee.sin_port))
        }
        self.listener = listener
    }

    deinit {
        hangUp()
        close(listener)
    }

    func hangUp() {
        if client >= 0 { close(client) }
        client = -1
    }

    /// A connection that has sent its CONNECT.
    func connecting(
        _ configure: (inout MQTTConnection.Configuration) -> Void = { _ in }
    ) throws -> MQTTConnection {
        var configuration = MQTTConnection.Configuration(
            broker: BrokerAddress(host: "127.0.0.1", port: port), clientID: "c")
        configure(&configuration)
        let connection = try MQTTConnection(configuration)
        try connection.connect()
        client = accept(listener, nil, nil)
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        return connection
    }

    /// A connection that is let in, with these properties of CONNACK.
    func connected(
        _ properties: [UInt8] = [], _ configure: (inout MQTTConnection.Configuration) -> Void = { _ in }
    ) throws -> MQTTConnection {
        let connection = try connecting(configure)
        _ = try packet()
        send([0x20, UInt8(3 + properties.count), 0, 0, UInt8(properties.count)] + properties)
        while connection.state == .connecting { _ = try connection.poll(milliseconds: 1_000) }
        return connection
    }

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(client, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// A message of QoS 1 for the client.
    func sendMessage(_ identifier: Int, payload: [UInt8] = []) {
        var bytes: [UInt8] = []
        _ = bytes.appendPublish(
            MQTTMessage(topic: "t", payload: payload), qos: .atLeastOnce, identifier: UInt16(identifier), maxBytes: .max
        )
        send(bytes)
    }

    /// Returns the next packet that the client has sent; nil when the client has hung up.
    func packet() throws -> [UInt8]? {
        while true {
            if received.count >= 2, received[1] < 0x80, received.count >= 2 + Int(received[1]) {
                defer { received.removeFirst(2 + Int(received[1])) }
                return Array(received[..<(2 + Int(received[1]))])
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(client, &buffer, buffer.count, 0)
            if count == 0 { return nil }
            guard count > 0 else { throw MQTTError(kind: .lost, message: "the client sent nothing") }
            received += buffer[..<count]
        }
    }

    /// Returns some of the bytes that the client has sent, as they came.
    func read(upTo count: Int) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        let count = recv(client, &buffer, buffer.count, 0)
        guard count > 0 else { throw MQTTError(kind: .lost, message: "the client sent nothing") }
        return Array(buffer[..<count])
    }

    /// Whether the client has sent no further byte.
    var isQuiet: Bool {
        var waiting = pollfd(fd: client, events: Int16(POLLIN), revents: 0)
        return received.isEmpty && poll(&waiting, 1, 0) == 0
    }
}
