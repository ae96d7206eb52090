import Glibc
import Testing

@testable import HTTPSending

/// The choice of the connection that is ended when a provider has stopped answering.
@Suite struct OpenSocketsTests {
    private let sockets = OpenSockets()

    private func address(_ host: String, _ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr(host)
        address.sin_port = UInt16(port).bigEndian
        return address
    }

    private func with(
        _ address: sockaddr_in, _ descriptor: Int32, _ call: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private func port(of descriptor: Int32) -> Int {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// Whether no further byte comes over this connection.
    private func isEnded(_ descriptor: Int32) -> Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT)) == 0
    }

    /// Two connections between the same two ports, of different addresses.
    @Test func theOneBetweenTheseAddressesEndsAlone() throws {
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(server) }
        #expect(with(address("0.0.0.0", 0), server, bind) == 0 && listen(server, 4) == 0)
        let port = port(of: server)
        func connected(_ host: String, from local: Int) throws -> Int32 {
            let (descriptor, _) = try #require(sockets.open(AF_INET, Int32(SOCK_STREAM.rawValue), 0, isShared: true))
            try #require(with(address(host, local), descriptor, bind) == 0)
            try #require(with(address(host, port), descriptor, connect) == 0)
            return descriptor
        }
        let first = try connected("127.0.0.1", from: 0)
        let localPort = self.port(of: first)
        let second = try connected("127.0.0.2", from: localPort)
        defer { for descriptor in [first, second] { _ = sockets.close(descriptor) } }
        sockets.end(
            ConnectionWay(
                local: SocketAddress("127.0.0.2", port: localPort), remote: SocketAddress("127.0.0.2", port: port)))
        #expect(isEnded(second) && !isEnded(first))
        sockets.end(ConnectionWay(local: nil, remote: SocketAddress("127.0.0.1", port: port)))
        #expect(!isEnded(first), "which one is not known")
        sockets.end(
            ConnectionWay(
                local: SocketAddress("127.0.0.1", port: localPort), remote: SocketAddress("127.0.0.1", port: port)))
        #expect(isEnded(first))
    }
}
