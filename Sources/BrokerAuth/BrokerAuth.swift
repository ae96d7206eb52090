import SignalingProtocol
import Tokens

/// Decides for a broker which clients may connect, their rights, and how long they may stay: all of
/// `BellwireBrokerAuth` except the interface to mosquitto. This type reads no clock and no file.
package struct BrokerAuth {
    /// Identifies a connection of a client.
    package typealias ConnectionID = Int

    /// Due work for a connection.
    package enum Due: Equatable, Sendable {
        /// The token ends in a minute: the broker must tell the device.
        case tokenWillExpire(clientID: String, topic: String, expiresAt: Int64)
        /// The connection has no rights any more. The broker must tell a device the reason on the device's topic. The
        /// disconnect follows later, so that the device can read the message.
        case ended(clientID: String, topic: String?, DisconnectReason)
        /// The connection is to be closed.
        case disconnect(clientID: String, ConnectionID, DisconnectReason)
    }

    /// A client that was admitted.
    package struct Admission: Equatable, Sendable {
        package let identity: ClientIdentity
        /// Whether the connection replaces another connection of the same client id.
        package let replaces: Bool
    }

    /// A user with this many messages beyond the rate, without a rest, is disconnected and excluded for a time.
    static let patience = 10_000

    typealias Ending = (connection: ConnectionID, reason: DisconnectReason)

    package internal(set) var verifier: TokenVerifier
    let topics: Topics
    /// The common name in the certificates of coordinators; nil admits no client by its certificate.
    private let coordinatorName: String?
    let limits: BrokerLimits
    var sessions: [ConnectionID: Session] = [:]
    /// The connection that was last admitted under each client id: the broker disconnects by client id.
    var latest: [ByteString: ConnectionID] = [:]
    /// The connections with rights of each user's devices.
    var devices: [UserID: Set<ConnectionID>] = [:]
    /// The number of these connections from each address.
    var addresses: [ByteString: Int] = [:]
    /// The connections that the broker has reported as gone. The wills of these connections come before any other event
    /// of the broker.
    var parting: [ConnectionID] = []
    /// The sessions that are over and not told yet.
    var ended: [Ending] = []
    /// The clients that were told, and when they are to be disconnected.
    var leaving: [(at: Int64, ending: Ending)] = []
    var exclusions = Exclusions()
    /// The users whom administrators have disabled, as a coordinator has told last.
    var disabledUsers: Set<UserID> = []
    /// The publishing of each user. The counts outlive connections, so that reconnecting does not reset the limit.
    var publishing = UserTraffic()
    var schedule = Schedule()
    /// The number of schedule entries that were checked.
    var looks = 0

    package init(
        verifier: TokenVerifier, topics: Topics, coordinatorName: String? = nil, limits: BrokerLimits = BrokerLimits()
    ) {
        self.verifier = verifier
        self.topics = topics
        self.coordinatorName = coordinatorName
        self.limits = limits
    }

    /// The credentials that a client presents when connecting.
    package struct Credentials: Sendable {
        package var clientID: String
        package var username: String?
        /// The password: the token.
        package var password: String?
        /// The common name of a certificate that the broker has verified.
        package var certificateName: String?
        /// The client's address.
        package var address: String?

        package init(
            clientID: String, username: String?, password: String?, certificateName: String? = nil,
            address: String? = nil
        ) {
            self.clientID = clientID
            self.username = username
            self.password = password
            self.certificateName = certificateName
            self.address = address
        }
    }

    /// Admits a client, or throws the reason for a refusal. `now` is in milliseconds since the epoch. When the broker
    /// reads its configuration again, the broker calls this function again for each connected client. A client that is
    /// being disconnected gets no rights by that.
    @discardableResult
    package mutating func connect(
        _ connection: ConnectionID, _ credentials: Credentials, now: Int64
    ) throws(Refusal) -> Admission {
        let clientID = ByteString(credentials.clientID)
        if let before = sessions[connection], before.isOver, !before.hasLeft, before.clientID == clientID {
            return Admission(identity: before.identity, replaces: false)
        }
        var session = try session(credentials, now)
        let replaced = latest[clientID].flatMap { sessions[$0]?.isOver ?? true || $0 == connection ? nil : $0 }
        try checkRoom(for: session, besides: [connection, replaced])
        if let before = sessions[connection], before.identity == session.identity, before.clientID == clientID {
            session.isTold = before.isTold && before.expiresAt == session.expiresAt
            (session.filters, session.backlog) = (before.filters, before.backlog)
        }
        remove(connection)
        if let replaced { revoke(replaced) }
        add(session, connection)
        return Admission(identity: session.identity, replaces: replaced != nil)
    }

    private mutating func session(_ credentials: Credentials, _ now: Int64) throws(Refusal) -> Session {
        let identity: ClientIdentity
        var expiresAt: Int64?
        var key: TokenKey?
        if let password = credentials.password, !password.isEmpty {
            let (token, signer) = try verified(password, now)
            (expiresAt, key) = (token.expiresAt, signer)
            guard token.role != .device || !exclusions.contains(token.user, now: now) else {
                throw Refusal("the user has flooded the broker")
            }
            guard token.role != .device || !disabledUsers.contains(token.user) else {
                throw Refusal("an administrator has disabled the user")
            }
            identity = try ClientIdentity(token, clientID: credentials.clientID, username: credentials.username)
        } else if let name = credentials.certificateName, let expected = coordinatorName,
            name.hasSameBytes(as: expected)
        {
            identity = try ClientIdentity(certificateName: name, clientID: credentials.clientID)
        } else {
            throw Refusal("no token", isWithoutCredentials: credentials.certificateName == nil)
        }
        return Session(
            clientID: ByteString(credentials.clientID), address: credentials.address.map(ByteString.init),
            identity: identity, rules: AccessRules(identity, topics), expiresAt: expiresAt, key: key)
    }

    private func verified(_ text: String, _ now: Int64) throws(Refusal) -> (Token, TokenKey) {
        do throws(TokenError) {
            return try verifier.verify(text, now: now)
        } catch {
            throw Refusal("token: \(error)")
        }
    }

    /// Throws when the user or the address has too many connections. Replaced connections do not count.
    private func checkRoom(for session: Session, besides former: [ConnectionID?]) throws(Refusal) {
        guard let device = session.device else { return }
        let own = (devices[device.userID] ?? []).filter { !former.contains($0) }
        if let most = limits.connectionsPerUser, own.count >= most {
            throw Refusal("the user has \(own.count) connections")
        }
        guard let most = limits.connectionsPerAddress, let address = session.address else { return }
        let leaving = former.count { $0.flatMap { sessions[$0] }.map { !$0.isOver && $0.address == address } ?? false }
        let count = (addresses[address] ?? 0) - leaving
        if count >= most { throw Refusal("its address has \(count) connections") }
    }

    private mutating func add(_ session: Session, _ connection: ConnectionID) {
        sessions[connection] = session
        latest[session.clientID] = connection
        if let device = session.device {
            devices[device.userID, default: []].insert(connection)
            if let address = session.address { addresses[address, default: 0] += 1 }
        }
        plan(connection)
    }

    /// Takes all rights from the connection.
    mutating func revoke(_ connection: ConnectionID) {
        guard let session = sessions[connection], !session.isOver else { return }
        sessions[connection]?.isOver = true
        guard let device = session.device else { return }
        devices[device.userID]?.remove(connection)
        if devices[device.userID]?.isEmpty ?? false { devices[device.userID] = nil }
        guard let address = session.address, let count = addresses[address] else { return }
        addresses[address] = count > 1 ? count - 1 : nil
    }

    mutating func remove(_ connection: ConnectionID) {
        revoke(connection)
        guard let session = sessions.removeValue(forKey: connection) else { return }
        if latest[session.clientID] == connection { latest[session.clientID] = nil }
    }

    /// Notes that the connection is gone. The broker may still publish the connection's will until the next `takeDue`.
    package mutating func disconnected(_ connection: ConnectionID) {
        guard sessions[connection] != nil else { return }
        revoke(connection)
        sessions[connection]?.hasLeft = true
        parting.append(connection)
    }

    /// The number of connected clients.
    var connections: Int { sessions.count }
}
