import SignalingProtocol
import Testing
import Tokens

@testable import BrokerAuth

let now: Int64 = 1_800_000_000_000

final class Fixture {
    let key: TokenKey
    var auth: BrokerAuth

    init(coordinatorName: String? = nil, limits: BrokerLimits = .none) throws {
        key = try TokenKey.generate(.es256)
        auth = BrokerAuth(
            verifier: TokenVerifier(keys: KeySet([key])), topics: .standard, coordinatorName: coordinatorName,
            limits: limits)
    }

    func token(
        _ user: String, device: String? = nil, role: Token.Role = .device, lasts life: Int64 = 600_000
    ) throws -> String {
        var token = Token(user: try #require(UserID(user)), expiresAt: now + life)
        token.device = device.flatMap(DeviceID.init)
        token.role = role
        return try token.signed(by: key, issuedAt: now)
    }

    func connect(
        _ connection: Int, _ clientID: String, _ token: String?, username: String? = nil, certificate: String? = nil,
        address: String? = nil, at time: Int64 = now
    ) throws {
        try auth.connect(
            connection,
            .init(
                clientID: clientID, username: username, password: token, certificateName: certificate, address: address),
            now: time)
    }

    /// A device with a token of its own.
    func letIn(_ connection: Int, _ user: String, _ device: String = "phone", lasts life: Int64 = 600_000) throws {
        try connect(connection, "\(user)/\(device)", try token(user, lasts: life))
    }

    func may(_ access: TopicAccess, _ topic: String, _ connection: Int = 1, at time: Int64 = now) -> Bool {
        Array(topic.utf8).withUnsafeBufferPointer { auth.permits(access, $0, connection, now: time) }
    }
}

extension BrokerLimits {
    static var none: BrokerLimits {
        var limits = BrokerLimits()
        (limits.publishing, limits.connectionsPerUser) = (nil, nil)
        return limits
    }

    static func publishing(_ rate: Int, burst: Int) -> BrokerLimits {
        var limits = none
        limits.publishing = PublishLimit(rate: rate, burst: burst)
        return limits
    }
}

/// The end of a connection as the broker is told of it when nothing else is due.
func ended(_ connection: Int, _ device: String, _ reason: DisconnectReason) -> [BrokerAuth.Due] {
    [.ended(clientID: device, topic: "bellwire/v1/down/\(device)", reason)]
}
