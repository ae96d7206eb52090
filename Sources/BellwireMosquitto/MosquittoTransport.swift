import Basics
@_exported import BellwireClientCore
import Support

/// libmosquitto as the SDK's transport: MQTT 5 or 3.1.1, TLS and SOCKS, kept up to date by the distribution. Each
/// connection has a thread, which ends with the connection. For a name with several addresses libmosquitto takes the
/// first address that does not refuse at once.
public struct MosquittoTransport: BellwireTransport {
    public enum Version: Sendable, Equatable {
        case v5
        /// MQTT 3.1.1, for brokers without MQTT 5: such a broker ends connections without a reason, and does not drop
        /// expired messages.
        case v311
    }

    /// A SOCKS 5 proxy through which the broker is reached. The proxy looks up the broker's name.
    public struct SOCKSProxy: Sendable, Equatable {
        public var host: String
        public var port: Int
        public var username: String?
        public var password: String?

        public init(host: String, port: Int = 1080, username: String? = nil, password: String? = nil) {
            (self.host, self.port, self.username, self.password) = (host, port, username, password)
        }
    }

    public var host: String
    public var port: Int
    public var isTLS: Bool
    /// The file with the certificate authorities to trust with TLS; nil for the system's.
    public var certificateAuthorityFile: String?
    public var version = Version.v5
    public var socks: SOCKSProxy?
    /// The MQTT username; nil for the user id.
    public var username: String?
    /// The MQTT password where there is no token.
    public var password: String?

    public init(host: String, port: Int = 1883, isTLS: Bool = false) {
        (self.host, self.port, self.isTLS) = (host, port, isTLS)
    }

    /// Creates a transport from `mqtt://[user[:password]@]host[:port]`, or `mqtts://` for TLS; nil when `url` is not of
    /// this form.
    public init?(url text: String) {
        guard let url = ServerURL(text), ["mqtt", "mqtts"].contains(url.scheme), url.path.isEmpty else { return nil }
        guard url.username != nil || url.password == nil else { return nil }
        let isTLS = url.scheme == "mqtts"
        self.init(host: url.host, port: url.port ?? (isTLS ? 8883 : 1883), isTLS: isTLS)
        (username, password) = (url.username, url.password)
    }

    public func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        guard let wakeUp = WakeUp() else {
            throw BellwireTransportError(.unreachable, "no descriptors for the connection")
        }
        return try await ThreadedConnection.connect(
            thread: { startDetachedThread($0) }, wake: wakeUp.wake, events: events
        ) { [self] () throws(BellwireTransportError) in try MosquittoClient(self, request, wakeUp) }
    }
}

extension SignalingClient.Configuration {
    /// Creates a configuration over libmosquitto, with the broker as `mqtt://` or `mqtts://` with host and port.
    ///
    /// - Throws: `badRequest` naming `user`, `device` or `broker`, when the text is not valid.
    public init(
        user: String, device: String, mosquitto url: String, certificateAuthorityFile: String? = nil
    ) throws(SignalingError) {
        guard var transport = MosquittoTransport(url: url) else {
            throw SignalingError(.badRequest, "broker: mqtt://[user[:password]@]host[:port] or mqtts://")
        }
        transport.certificateAuthorityFile = certificateAuthorityFile
        try self.init(user: user, device: device, transport: transport)
    }
}
