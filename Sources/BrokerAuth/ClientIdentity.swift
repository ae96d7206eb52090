import SignalingProtocol
import Tokens

/// The identity of a client of the broker, proved by a token or a certificate.
package enum ClientIdentity: Equatable, Sendable {
    /// A device of a user.
    case device(DeviceAddress)
    /// A backend of the app; a backend acts for any user.
    case server(UserID)
    case coordinator(UserID)

    /// The identity as an MQTT username.
    package var name: String {
        switch self {
        case .device(let device): Topics.encode(device.userID)
        case .server(let user), .coordinator(let user): Topics.encode(user)
        }
    }
}

/// The reason why a client is not admitted. The text is for the broker's log and contains no secret.
package struct Refusal: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
    /// Whether the client gave no credentials at all, as a scanner or a health check does, which is hardly worth a log
    /// line.
    package let isWithoutCredentials: Bool

    init(_ description: String, isWithoutCredentials: Bool = false) {
        self.description = description
        self.isWithoutCredentials = isWithoutCredentials
    }
}

extension ClientIdentity {
    /// Returns the identity in `token`, for a client that connects under `clientID` and `username`; an MQTT 5 client
    /// may omit the username.
    init(_ token: Token, clientID: String, username: String?) throws(Refusal) {
        if let username, !username.utf8.elementsEqual(Topics.encode(token.user).utf8) {
            throw Refusal("the username is not that of the token")
        }
        switch token.role {
        case .device:
            guard let device = Topics.device(clientID: clientID), device.userID == token.user else {
                throw Refusal("the client id is not {user}/{device} of the token's user")
            }
            guard device.deviceID != .server else {
                throw Refusal("the device name server is for backends: a token of role server publishes for it")
            }
            if let only = token.device, only != device.deviceID {
                throw Refusal("the token is for another device of the user")
            }
            self = .device(device)
        case .server: self = .server(try Self.named(token.user, clientID))
        case .coordinator: self = .coordinator(try Self.named(token.user, clientID))
        case .admin: throw Refusal("a token of role admin is for the gateway's /v1/admin alone")
        }
    }

    /// Returns the identity of a coordinator with a certificate for this name.
    init(certificateName name: String, clientID: String) throws(Refusal) {
        guard let name = UserID(name) else { throw Refusal("the certificate's name cannot be used") }
        self = .coordinator(try Self.named(name, clientID))
    }

    /// Returns the name of a server or a coordinator. Its client id must not contain a slash. The ids of devices have a
    /// slash, so that neither kind can replace a connection of the other kind.
    private static func named(_ name: UserID, _ clientID: String) throws(Refusal) -> UserID {
        guard !clientID.utf8.contains(UInt8(ascii: "/")) else {
            throw Refusal("the client id of a server or a coordinator has no slash")
        }
        return name
    }
}
