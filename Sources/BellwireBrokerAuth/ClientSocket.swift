import BrokerAuth
import CBrokerSocket
import CMosquittoBroker
import Glibc

/// The socket of a client, as far as it can be found.
struct ClientSocket {
    private let descriptor: Int32
    private let isWebSocket: Bool

    /// `client` is connected.
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

    /// Before the client is disconnected: what waits for it is not worth keeping.
    func forget() {
        bellwire_socket_forget(descriptor)
        // libwebsockets closes when it has written what it has, which a client that does not read prevents.
        if isWebSocket { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
}
