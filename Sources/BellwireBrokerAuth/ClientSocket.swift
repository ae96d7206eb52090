import BrokerAuth
import CBrokerSocket
import CMosquittoBroker
import Glibc

/// The socket of a client, if found.
struct ClientSocket {
    private let descriptor: Int32
    private let isWebSocket: Bool

    /// Finds the socket of a connected client.
    init?(_ client: OpaquePointer?) {
        guard let client else { return nil }
        descriptor = bellwire_client_socket(UnsafeRawPointer(client), mosquitto_client_address(client))
        guard descriptor >= 0 else { return nil }
        isWebSocket = mosquitto_client_protocol(client) == mp_websockets.rawValue
    }

    var progress: SocketProgress? {
        var written: UInt64 = 0
        var isDrained = false
        guard bellwire_socket_progress(descriptor, &written, &isDrained) else { return nil }
        return SocketProgress(written: written, isDrained: isDrained)
    }

    /// Drops the waiting bytes of a client that is about to be disconnected.
    func forget() {
        bellwire_socket_forget(descriptor)
        // libwebsockets closes a connection only after writing all bytes, and a client that does not read would keep
        // the connection open.
        if isWebSocket { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
}
