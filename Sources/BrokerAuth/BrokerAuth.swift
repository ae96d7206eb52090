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
    /// The earliest of all `next`, or earlier.
    private var nextDue = Int64.max

    public init(verifier: TokenVerifier, topics: Topics, coordinatorName: String? = nil) {
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

    /// Lets a client in, or throws why not. `now` in milliseconds since the epoch.
    @discardableResult
    public mutating func connect(
        _ connection: ConnectionID, _ credentials: Credentials, now: Int64
    ) throws(Refusal) -> ClientIdentity {
        remove(connection)
        let identity: ClientIdentity
        var expiresAt: Int64?
        var key: TokenKey?
        if let password = credentials.password, !password.isEmpty {
            let (token, signer) = try verified(password, now)
            (expiresAt, key) = (token.expiresAt, signer)
            identity = try ClientIdentity(token, clientID: credentials.clientID, username: credentials.username)
        } else if let name = credentials.certificateName, name == coordinatorName {
            identity = try ClientIdentity(certificateName: name, clientID: credentials.clientID)
        } else {
            throw Refusal("no token", isWithoutCredentials: credentials.certificateName == nil)
        }
        let session = Session(
            clientID: credentials.clientID, identity: identity, rules: AccessRules(identity, topics),
            expiresAt: expiresAt, key: key)
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

    /// Whether a client may do this. One that was not let in may do nothing.
    public mutating func permits(
        _ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>, _ connection: ConnectionID
    ) -> Bool {
        guard let session = sessions[connection], session.rules.permits(access, topic) else { return false }
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
    public var connections: Int { sessions.count }
}
