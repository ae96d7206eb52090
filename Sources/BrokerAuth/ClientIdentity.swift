import SignalingProtocol
import Tokens

/// Who a client of the broker is, once it has shown a token or a certificate.
package enum ClientIdentity: Equatable, Sendable {
    /// One device of one user.
    case device(DeviceAddress)
    /// A backend of the app. It acts for any user.
    case server(UserID)
    case coordinator(UserID)

    /// As an MQTT username.
    package var name: String {
        switch self {
        case .device(let device): Topics.encode(device.userID)
        case .server(let user), .coordinator(let user): Topics.encode(user)
        }
    }
}

/// Why a client is not let in. The text is for the broker's log: it names nothing that is secret.
package struct Refusal: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
    /// The client gave no credentials at all, as a scanner or a health check does: hardly worth a line.
    package let isWithoutCredentials: Bool

    init(_ description: String, isWithoutCredentials: Bool = false) {
        self.description = description
        self.isWithoutCredentials = isWithoutCredentials
    }
}

extension ClientIdentity {
    /// The client that `token` describes, when it connects under `clientID` and `username`, which an MQTT 5 client may leave out.
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
        }
    }

    /// A coordinator that a certificate names.
    init(certificateName name: String, clientID: String) throws(Refusal) {
        guard let name = UserID(name) else { throw Refusal("the certificate's name cannot be used") }
        self = .coordinator(try Self.named(name, clientID))
    }

    /// Ids of devices have a slash, so that no server and no coordinator puts a device off, nor the other way round.
    private static func named(_ name: UserID, _ clientID: String) throws(Refusal) -> UserID {
        guard !clientID.utf8.contains(UInt8(ascii: "/")) else {
            throw Refusal("the client id of a server or a coordinator has no slash")
        }
        return name
    }
}
