import SignalingProtocol
import Tokens

/// The reason why the broker ends a session. The raw value is sent to the device (docs/protocol.md, section 1, Tokens).
package enum DisconnectReason: String, Equatable, Sendable, CaseIterable {
    /// The client's token has ended.
    case tokenExpired
    /// The key that made the client's token was removed.
    case tokenRevoked
    /// The client's user has flooded the broker.
    case flooding
    /// The client reads more slowly than messages come, and too many bytes wait for the client.
    case slowReader
    /// An administrator has disabled the client's user.
    case userDisabled

    package var code: ErrorCode { ErrorCode(rawValue: rawValue) }

    /// The reason as a text for people.
    package var description: String {
        switch self {
        case .tokenExpired: "the token has ended: connect with another one"
        case .tokenRevoked: "the key of the token was taken away: connect with another token"
        case .flooding: "the user sends too much, and is kept out for \(Exclusions.length / 1000) s"
        case .userDisabled: "an administrator has disabled this user"
        case .slowReader: "too many messages wait for this device, which does not read them"
        }
    }
}

/// A connection of a client, from its admission on.
struct Session {
    let clientID: ByteString
    /// The client's address.
    let address: ByteString?
    let identity: ClientIdentity
    let rules: AccessRules
    let expiresAt: Int64?
    /// The key that made the token.
    let key: TokenKey?
    var isTold = false
    /// Whether the client has no rights any more, except for its will, which the broker checks and publishes when the
    /// client is gone.
    var isOver = false
    /// Whether the broker has reported that the client is gone.
    var hasLeft = false
    /// The filters of the client's subscriptions. With a filter, messages reach the client.
    var filters: Set<[UInt8]> = []
    var backlog = Backlog()

    /// The time of the next work for this connection, in milliseconds since the epoch.
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

    /// The bound on waiting bytes; nil for a coordinator: the waiting messages are the coordinator's work, and
    /// mosquitto bounds their number.
    var maxBacklog: Int64? {
        switch identity {
        case .device: BrokerLimits.backlogPerDevice
        case .server: BrokerLimits.backlogPerServer
        case .coordinator: nil
        }
    }
}
