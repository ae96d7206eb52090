/// Where a client stands. Each state is told once, by `ClientEvent.connection`, when it begins.
public enum ConnectionState: Sendable, Equatable {
    /// `connect()` was not called, or `disconnect()` was.
    case disconnected
    /// The first connection is being made. Can transition to every other state.
    case connecting
    /// The service knows this device: calls ring here.
    case connected
    /// The connection is lost, or an attempt failed, and the client tries again.
    case reconnecting(reason: String)
    /// The broker does not take this client for who it says it is. It tries again, slowly: with another token of the provider or of
    /// `renew(_:)`, or after the operator's mistake was mended.
    case refused(reason: String)
    /// The token has ended and there is no other one. `renew(_:)` goes on with another.
    case tokenExpired
    /// Another connection has this device id now: this one is over, as after `disconnect()`, and does not come back by itself, since the two
    /// would take the device from each other for ever.
    case takenOver

    /// Calls ring here.
    public var isConnected: Bool { self == .connected }

    /// The client is about to be connected, for the first time or again, and tries by itself.
    public var isConnecting: Bool {
        switch self {
        case .connecting, .reconnecting: true
        case .disconnected, .connected, .refused, .tokenExpired, .takenOver: false
        }
    }
}
