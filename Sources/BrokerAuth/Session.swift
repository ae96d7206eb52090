import SignalingProtocol
import Tokens

/// Why the broker ends a session. The raw value is what the device is told (docs/protocol.md, section 1, Tokens).
package enum DisconnectReason: String, Equatable, Sendable, CaseIterable {
    /// Its token has ended.
    case tokenExpired
    /// The key that made its token was taken away.
    case tokenRevoked
    /// Its user has flooded the broker.
    case flooding
    /// It reads more slowly than it is sent, and too much waits for it.
    case slowReader

    package var code: ErrorCode { ErrorCode(rawValue: rawValue) }

    /// For people.
    package var description: String {
        switch self {
        case .tokenExpired: "the token has ended: connect with another one"
        case .tokenRevoked: "the key of the token was taken away: connect with another token"
        case .flooding: "the user sends too much, and is kept out for \(Exclusions.length / 1000) s"
        case .slowReader: "too much waits for this device, which does not read it"
        }
    }
}

/// One connection of one client, from the moment at which it was let in.
struct Session {
    let clientID: ByteString
    /// From where it comes.
    let address: ByteString?
    let identity: ClientIdentity
    let rules: AccessRules
    let expiresAt: Int64?
    /// The key that made the token.
    let key: TokenKey?
    var isTold = false
    /// It may do nothing any more, but for its will, which the broker publishes, and checks, when the client is gone.
    var isOver = false
    /// The broker has said that it is gone.
    var hasLeft = false
    /// The filters to which it listens: what it is told now reaches it.
    var filters: Set<[UInt8]> = []
    var backlog = Backlog()

    /// When something is to be done about it.
    var next: Int64 {
        guard let expiresAt, !isOver else { return .max }
        guard device != nil, !isTold, !filters.isEmpty else { return expiresAt }
        return expiresAt - BrokerAuth.notice
    }

    var device: DeviceAddress? {
        guard case .device(let device) = identity else { return nil }
        return device
    }

    var maxFilters: Int {
        switch identity {
        case .device: BrokerLimits.subscriptionsPerDevice
        case .server: BrokerLimits.subscriptionsPerServer
        case .coordinator: BrokerLimits.subscriptionsPerCoordinator
        }
    }

    /// Nil for a coordinator: what waits for it is what it has to do, and mosquitto bounds that.
    var maxBacklog: Int64? {
        switch identity {
        case .device: BrokerLimits.backlogPerDevice
        case .server: BrokerLimits.backlogPerServer
        case .coordinator: nil
        }
    }
}
