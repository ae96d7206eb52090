import SignalingProtocol
import Tokens

/// Decides for a broker who may connect, what each client may do, and how long: all that `BellwireBrokerAuth` does but for
/// talking to mosquitto. It reads no clock and no file.
package struct BrokerAuth {
    /// Identifies one connection of one client.
    package typealias ConnectionID = Int

    /// What has come due for a connection.
    package enum Due: Equatable, Sendable {
        /// Its token ends in a minute: the device is to be told.
        case tokenWillExpire(clientID: String, topic: String, expiresAt: Int64)
        /// It may do nothing any more. A device is to be told why, on its topic; it is disconnected when it has had time to read that.
        case ended(clientID: String, topic: String?, DisconnectReason)
        /// It is to be disconnected.
        case disconnect(clientID: String, ConnectionID, DisconnectReason)
    }

    /// A client that was let in.
    package struct Admission: Equatable, Sendable {
        package let identity: ClientIdentity
        /// It takes the place of another connection of the same client id.
        package let replaces: Bool
    }

    /// How long before the end a device is told, in milliseconds.
    static let notice: Int64 = 60_000
    /// How long after it was told why its session is over a client is disconnected, in milliseconds. Whatever it goes on to send makes
    /// the kernel reset the connection, and what it has not read by then is lost.
    static let farewell: Int64 = 200
    /// A user who has published so many messages beyond the rate, without a rest, is disconnected and kept out.
    static let patience = 10_000

    typealias Ending = (connection: ConnectionID, reason: DisconnectReason)

    package internal(set) var verifier: TokenVerifier
    let topics: Topics
    /// The name in the certificates of coordinators; nil: certificates let nobody in.
    private let coordinatorName: String?
    let limits: BrokerLimits
    var sessions: [ConnectionID: Session] = [:]
    /// Which connection was let in last under a client id: the broker disconnects by that.
    var latest: [ByteString: ConnectionID] = [:]
    /// Those of a user's devices that may do something.
    var devices: [UserID: Set<ConnectionID>] = [:]
    /// How many of these come from each address.
    var addresses: [ByteString: Int] = [:]
    /// Of these the broker has said that they are gone; their wills come before it says anything else.
    var parting: [ConnectionID] = []
    /// Whose session is over, and who is not told yet.
    var ended: [Ending] = []
    /// Who was told, and is to be disconnected.
    var leaving: [(at: Int64, ending: Ending)] = []
    var exclusions = Exclusions()
    /// What each user has published. It outlives connections: who connects again does not begin anew.
    var publishing = UserTraffic()
    var schedule = Schedule()
    /// How many connections were looked at because something might be due.
    var looks = 0

    package init(
        verifier: TokenVerifier, topics: Topics, coordinatorName: String? = nil, limits: BrokerLimits = BrokerLimits()
    ) {
        self.verifier = verifier
        self.topics = topics
        self.coordinatorName = coordinatorName
        self.limits = limits
    }

    /// What a client shows when it connects.
    package struct Credentials: Sendable {
        package var clientID: String
        package var username: String?
        /// The token.
        package var password: String?
        /// The common name of a certificate that the broker has verified.
        package var certificateName: String?
        /// From where it comes.
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

    /// Lets a client in, or throws why not. `now` in milliseconds since the epoch. A broker asks again about those who are in when
    /// it reads its configuration again; who is being put off stays without rights until it is gone.
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

    /// Whoever takes the place of a connection needs no room besides.
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

    /// The connection may do nothing any more.
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

    /// The connection is gone. Its will is still let through, until the next `takeDue`.
    package mutating func disconnected(_ connection: ConnectionID) {
        guard sessions[connection] != nil else { return }
        revoke(connection)
        sessions[connection]?.hasLeft = true
        parting.append(connection)
    }

    /// How many clients are in.
    var connections: Int { sessions.count }
}
