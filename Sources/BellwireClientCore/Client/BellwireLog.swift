import SignalingProtocol

/// The weight of a line of a client's log.
public enum BellwireLogLevel: Sendable, Equatable {
    /// A step of a connection or of a request, or an event.
    case debug
    /// A connection begins or ends, the token provider fails, or a call is ignored; the client goes on by itself.
    case info
}

extension ClientDriver {
    /// Writes a line into the app's log, in the driver's order. No line has the token or the content of a message, and
    /// an error of the token provider comes as its type alone.
    func log(_ level: BellwireLogLevel, _ state: inout State, _ text: @autoclosure () -> String) {
        guard let write = configuration.log else { return }
        // A broker or a proxy may quote what the client sent.
        let secret = state.token ?? ""
        let line = secret.isEmpty ? text() : text().replacing(secret, with: "…")
        state.effects.append { write(level, line) }
    }

    /// Writes that the token provider failed. A wait that the client has given up is no failure.
    func log(tokenFailure kind: String) {
        guard configuration.log != nil else { return }
        turn { state in
            if state.phase == .running { log(.info, &state, "the token provider failed: \(kind)") }
        }
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
