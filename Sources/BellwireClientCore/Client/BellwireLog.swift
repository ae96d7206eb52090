import SignalingProtocol

/// The weight of a line of a client's log.
public enum BellwireLogLevel: Sendable, Equatable {
    /// A step of a connection or of a request.
    case debug
    /// A connection begins or ends, or the token provider fails; the client goes on by itself.
    case info
}

extension ClientDriver {
    /// Writes a line into the app's log, in the driver's order. No line has a token or the content of a message, and an
    /// error of the app's own code comes as its type alone.
    func log(_ level: BellwireLogLevel, _ state: inout State, _ text: @autoclosure () -> String) {
        guard let write = configuration.log else { return }
        // A broker or a proxy may quote what the client sent.
        let secret = state.token ?? ""
        let line = secret.isEmpty ? text() : text().replacing(secret, with: "…")
        state.effects.append { write(level, line) }
    }

    func log(_ level: BellwireLogLevel, _ text: String) {
        guard configuration.log != nil else { return }
        turn { log(level, &$0, text) }
    }
}

extension BellwireConnectionState {
    /// The name of the state, without its reason.
    var name: String {
        switch self {
        case .disconnected: "disconnected"
        case .connecting: "connecting"
        case .connected: "connected"
        case .reconnecting: "reconnecting"
        case .refused: "refused"
        case .tokenExpired: "tokenExpired"
        case .takenOver: "takenOver"
        }
    }
}
