/// The state of a client's connection. The client reports each state once, by `ClientEvent.connection`, when it begins.
public enum BellwireConnectionState: Sendable, Equatable {
    /// The app has not called `connect()`, or has called `disconnect()`.
    case disconnected
    /// The client makes its first connection. Can transition to every other state except `reconnecting`.
    case connecting
    /// The service knows this device: calls ring here.
    case connected
    /// The connection is lost, or an attempt failed, and the client tries again. `reason` is text for people.
    case reconnecting(reason: String)
    /// The broker refuses this client, TLS fails, or the token provider gives no token. The client tries again by
    /// itself, slower and slower up to every 8 s: with another token of the provider or of `renew(_:)`, or until the
    /// operator has mended a mistake. `reason` is text for people.
    case refused(reason: String)
    /// The token has ended, and the client has no other token. `renew(_:)` goes on with another token.
    case tokenExpired
    /// Another connection has this device id now. This client has ended, as after `disconnect()`, and does not
    /// reconnect by itself, since the two clients would displace each other without end.
    case takenOver

    /// Whether calls ring here.
    public var isConnected: Bool { self == .connected }

    /// Whether the client is not connected but connects or reconnects by itself.
    public var isConnecting: Bool {
        switch self {
        case .connecting, .reconnecting: true
        case .disconnected, .connected, .refused, .tokenExpired, .takenOver: false
        }
    }
}
