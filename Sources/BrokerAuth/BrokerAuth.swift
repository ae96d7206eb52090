import SignalingProtocol
import Tokens

/// Decides for a broker who may connect, what each client may do, and how long: all that `BellwireBrokerAuth` does but for
/// talking to mosquitto. It reads no clock and no file.
public struct BrokerAuth {
    /// Identifies one connection of one client.
    public typealias ConnectionID = Int

    /// What has come due for a connection.
    public enum Due: Equatable, Sendable {
        /// Its token ends in a minute: the device is to be told.
        case tokenWillExpire(clientID: String, topic: String, expiresAt: Int64)
        /// Its token has ended, or its key was taken away: it is to be disconnected.
        case ended(clientID: String)
    }

    /// How long before the end a device is told, in milliseconds.
    static let notice: Int64 = 60_000
    /// A user who has published so many messages beyond the rate, without a rest, is disconnected and kept out for so long, in
    /// milliseconds.
    static let patience = 10_000
    static let exclusion: Int64 = 30_000
    /// How many users can be kept out at the same time. Beyond that those are let in again that were kept out first.
    static let excludedUsers = 10_000

    private struct Session {
        let clientID: String
        let identity: ClientIdentity
        let rules: AccessRules
        let expiresAt: Int64?
        /// The key that made the token.
        let key: TokenKey?
        var isTold = false
        /// It may do nothing any more, but for its will, which the broker publishes, and checks, when the client is gone.
        var isOver = false
        /// It listens: what it is told now reaches it.
        var isSubscribed = false
        /// When something is to be done about it.
        var next: Int64 {
            guard let expiresAt, !isOver else { return .max }
            guard case .device = identity, !isTold, isSubscribed else { return expiresAt }
            return expiresAt - BrokerAuth.notice
        }
    }

    public private(set) var verifier: TokenVerifier
    private let topics: Topics
    /// The name in the certificates of coordinators; nil: certificates let nobody in.
    private let coordinatorName: String?
    private var sessions: [ConnectionID: Session] = [:]
    /// Which connection was let in last under a client id: the broker disconnects by that.
    private var latest: [String: ConnectionID] = [:]
    /// Of these the broker has said that they are gone; their wills come before it says anything else.
    private var parting: [ConnectionID] = []
    /// Who flooded the broker, and until when they are kept out, in the order in which that ends.
    private var excluded: [(user: UserID, until: Int64)] = []
    private var flooding: [UserID] = []
    /// What each user has published. It outlives connections: who connects again does not begin anew.
    private var publishing: [UserID: Publishing] = [:]
    /// Users beyond so many at once are not counted until others have rested.
    static let countedUsers = 50_000
    /// How much one user may publish, all devices together; nil: without limit.
    private let publishLimit: PublishLimit?
    /// The earliest of all `next`, or earlier.
    private var nextDue = Int64.max

    public init(
        verifier: TokenVerifier, topics: Topics, coordinatorName: String? = nil, publishLimit: PublishLimit? = nil
    ) {
        self.publishLimit = publishLimit
        self.verifier = verifier
        self.topics = topics
        self.coordinatorName = coordinatorName
    }

    /// What a client shows when it connects.
    public struct Credentials: Sendable {
        public var clientID: String
        public var username: String?
        /// The token.
        public var password: String?
        /// The common name of a certificate that the broker has verified.
        public var certificateName: String?

        public init(clientID: String, username: String?, password: String?, certificateName: String? = nil) {
            self.clientID = clientID
            self.username = username
            self.password = password
            self.certificateName = certificateName
        }
    }

    /// Lets a client in, or throws why not. `now` in milliseconds since the epoch. A broker asks again about those who are in when
    /// it reads its configuration again; who has been put off and is not gone yet stays out.
    @discardableResult
    public mutating func connect(
        _ connection: ConnectionID, _ credentials: Credentials, now: Int64
    ) throws(Refusal) -> ClientIdentity {
        if let before = sessions[connection], before.isOver, before.clientID == credentials.clientID {
            throw Refusal("it is being disconnected")
        }
        let identity: ClientIdentity
        var expiresAt: Int64?
        var key: TokenKey?
        if let password = credentials.password, !password.isEmpty {
            let (token, signer) = try verified(password, now)
            (expiresAt, key) = (token.expiresAt, signer)
            guard token.role != .device || !isExcluded(token.user, now) else {
                throw Refusal("the user has flooded the broker")
            }
            identity = try ClientIdentity(token, clientID: credentials.clientID, username: credentials.username)
        } else if let name = credentials.certificateName, name == coordinatorName {
            identity = try ClientIdentity(certificateName: name, clientID: credentials.clientID)
        } else {
            throw Refusal("no token", isWithoutCredentials: credentials.certificateName == nil)
        }
        var session = Session(
            clientID: credentials.clientID, identity: identity, rules: AccessRules(identity, topics),
            expiresAt: expiresAt, key: key)
        if let before = sessions[connection], before.identity == identity, before.clientID == session.clientID {
            session.isTold = before.isTold && before.expiresAt == expiresAt
            session.isSubscribed = before.isSubscribed
        }
        remove(connection)
        sessions[connection] = session
        latest[session.clientID] = connection
        nextDue = min(nextDue, session.next)
        return identity
    }

    private func verified(_ text: String, _ now: Int64) throws(Refusal) -> (Token, TokenKey) {
        do throws(TokenError) {
            return try verifier.verify(text, now: now)
        } catch {
            throw Refusal("token: \(error)")
        }
    }

    /// The connection is gone. Its will is still let through, until the next `takeDue`.
    public mutating func disconnected(_ connection: ConnectionID) {
        guard sessions[connection] != nil else { return }
        sessions[connection]?.isOver = true
        parting.append(connection)
    }

    private mutating func remove(_ connection: ConnectionID) {
        guard let session = sessions.removeValue(forKey: connection) else { return }
        if latest[session.clientID] == connection { latest[session.clientID] = nil }
    }

    /// Whether a client may do this. One that was not let in may do nothing. Looked at for each message, twice: the clock is read
    /// only for what is counted.
    public mutating func permits(
        _ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>, _ connection: ConnectionID,
        now: @autoclosure () -> Int64
    ) -> Bool {
        guard let session = sessions[connection] else { return false }
        if case .publish = access, !session.isOver, !isWithinRate(session, now()) { return false }
        guard session.rules.permits(access, topic) else { return false }
        if session.isOver { return isWill(access, topic, of: session) }
        if case .subscribe = access, !session.isSubscribed, session.expiresAt != nil {
            sessions[connection]?.isSubscribed = true
            nextDue = min(nextDue, session.expiresAt.map { $0 - Self.notice } ?? .max)
        }
        return true
    }

    /// When the token of a device ends, if this is a presence message of it: the service tells the device (section 1).
    public func tokenExpiry(ofPublisher connection: ConnectionID, topic: UnsafeBufferPointer<UInt8>) -> Int64? {
        guard let session = sessions[connection], isPresence(topic, of: session) else { return nil }
        return session.expiresAt
    }

    /// Also what it may not publish counts: it costs the broker as much.
    private mutating func isWithinRate(_ session: Session, _ clock: @autoclosure () -> Int64) -> Bool {
        guard let publishLimit, case .device(let device) = session.identity else { return true }
        let now = clock()
        if publishing[device.userID] == nil, publishing.count >= Self.countedUsers {
            publishing = publishing.filter { !$0.value.isRested(now: now) }
            guard publishing.count < Self.countedUsers else { return true }
        }
        guard publishing[device.userID, default: Publishing()].admit(publishLimit, now: now) else {
            if publishing[device.userID]?.excess == Self.patience { exclude(device.userID, now) }
            return false
        }
        return true
    }

    private mutating func exclude(_ user: UserID, _ now: Int64) {
        if excluded.count >= Self.excludedUsers { excluded.removeFirst() }
        excluded.append((user, now + Self.exclusion))
        flooding.append(user)
        nextDue = min(nextDue, now)
    }

    private mutating func isExcluded(_ user: UserID, _ now: Int64) -> Bool {
        excluded.removeAll { $0.until <= now }
        return excluded.contains { $0.user == user }
    }

    private func isWill(_ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>, of session: Session) -> Bool {
        guard case .publish = access else { return false }
        return isPresence(topic, of: session)
    }

    private func isPresence(_ topic: UnsafeBufferPointer<UInt8>, of session: Session) -> Bool {
        guard case .device(let device) = session.identity else { return false }
        return topic.elementsEqual(topics.presence(device).utf8)
    }

    /// What has come due by `now`, each once.
    public mutating func takeDue(now: Int64) -> [Due] {
        for connection in parting where sessions[connection]?.isOver ?? false { remove(connection) }
        parting.removeAll(keepingCapacity: true)
        guard nextDue <= now else { return [] }
        var due: [Due] = []
        nextDue = .max
        for user in flooding {
            let own = sessions.filter { _, session in
                if case .device(let device) = session.identity {
                    device.userID == user && !session.isOver
                } else {
                    false
                }
            }
            due += own.keys.sorted().compactMap { end($0) }
        }
        flooding = []
        for (connection, session) in sessions {
            guard let expiresAt = session.expiresAt, !session.isOver else { continue }
            if expiresAt <= now {
                if let ended = end(connection) { due.append(ended) }
                continue
            }
            if session.next <= now, case .device(let device) = session.identity {
                sessions[connection]?.isTold = true
                due.append(
                    .tokenWillExpire(
                        clientID: session.clientID, topic: topics.down(device), expiresAt: expiresAt))
                nextDue = min(nextDue, expiresAt)
            } else {
                nextDue = min(nextDue, session.next)
            }
        }
        return due
    }

    /// Takes other keys. Returns whose token was made by a key that is no longer among them.
    public mutating func replaceKeys(_ keys: KeySet) -> [Due] {
        verifier.keys = keys
        let orphans = sessions.filter { _, session in !session.isOver && session.key.map { !keys.contains($0) } ?? false
        }
        return orphans.keys.sorted().compactMap { end($0) }
    }

    /// From now on the connection may do nothing. Nil when another one has taken its client id since: the broker has
    /// closed this one, or is about to.
    private mutating func end(_ connection: ConnectionID) -> Due? {
        guard let session = sessions[connection] else { return nil }
        guard latest[session.clientID] == connection else {
            remove(connection)
            return nil
        }
        sessions[connection]?.isOver = true
        return .ended(clientID: session.clientID)
    }

    /// How many clients are in.
    var connections: Int { sessions.count }
}
