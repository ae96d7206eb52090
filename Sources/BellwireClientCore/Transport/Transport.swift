/// What carries messages to a broker and back: any MQTT client. The SDK makes one connection after another with it, each with a session,
/// and a will, of its own (docs/protocol.md, section 1), and decides itself when to connect again.
///
/// An adapter needs no queue of its own beyond that of its MQTT client, no acks and no resends: all of that is the SDK's.
public protocol Transport: Sendable {
    /// Connects with a clean session and the will, subscribes to all topics with QoS 1, and returns when the broker has granted them. What
    /// happens from then on is told by `events`, from any thread, one after another, and `closed` last, once, for whatever reason the
    /// connection ended. Nothing is told of a connection that did not come about.
    ///
    /// The SDK gives up after 10 s and cancels the task.
    func connect(
        _ request: ConnectionRequest, events: @escaping @Sendable (TransportEvent) -> Void
    ) async throws(TransportError) -> any TransportConnection
}

/// A connection that came about.
public protocol TransportConnection: Sendable {
    /// Hands a message over, to be sent in the order of the calls, and returns at once. A connection that is lost drops it and says `closed`.
    ///
    /// - Throws: `TransportError` of kind `invalid` when this message can never be sent, as one beyond what the broker takes.
    func publish(_ message: OutgoingMessage) throws(TransportError)

    /// The SDK doubts that the broker is still there: asks for a sign of life (PINGREQ), and ends the connection when none comes in some
    /// seconds. One that cannot may do nothing.
    func probe()

    /// Sends what was handed over, says DISCONNECT so that the broker drops the will, and returns when that is done, or in two seconds. Not
    /// called after `closed`: an adapter that has something to let go does so before it tells that.
    func close() async
}

extension TransportConnection {
    public func probe() {}
}

/// What CONNECT and SUBSCRIBE say.
public struct ConnectionRequest: Sendable {
    /// `{user}/{device}`, encoded.
    public var clientID: String
    /// The user, encoded.
    public var username: String
    /// The token; nil when there is none.
    public var password: String?
    /// Published by the broker when the connection is lost; nil for a client that only asks.
    public var will: OutgoingMessage?
    public var keepAlive: Duration
    /// To subscribe to, with QoS 1.
    public var topics: [String]

    public init(
        clientID: String, username: String, password: String?, will: OutgoingMessage?, keepAlive: Duration,
        topics: [String]
    ) {
        self.clientID = clientID
        self.username = username
        self.password = password
        self.will = will
        self.keepAlive = keepAlive
        self.topics = topics
    }
}

/// A message to be published with QoS 1, never retained.
public struct OutgoingMessage: Sendable, Equatable {
    public var topic: String
    public var payload: [UInt8]
    /// With MQTT 5: seconds after which the broker drops the message undelivered; nil for never.
    public var expirySeconds: UInt32?

    public init(topic: String, payload: [UInt8], expirySeconds: UInt32? = nil) {
        self.topic = topic
        self.payload = payload
        self.expirySeconds = expirySeconds
    }
}

/// What happens on a connection.
public enum TransportEvent: Sendable {
    /// A message arrived. `isRetained` as the packet says.
    case received(payload: [UInt8], isRetained: Bool)
    /// Final.
    case closed(TransportError)
}

/// Why there is no connection, or no message.
public struct TransportError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// The broker cannot be reached.
        case unreachable
        /// The broker refused CONNECT or a subscription.
        case refused
        /// The connection is gone. `isClean`: without a word, as when another one takes its place at a broker that does not say so.
        case lost(isClean: Bool)
        /// The broker said that another connection has this client id now (MQTT 5: DISCONNECT with 0x8E).
        case takenOver
        /// The broker ended the connection (MQTT 5: DISCONNECT with 0x98).
        case ended
        /// TLS cannot be set up, or the broker's certificate is not to be trusted: another try changes nothing.
        case tls
        /// This message cannot be sent.
        case invalid
    }

    public var kind: Kind
    /// For people.
    public var message: String

    public init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { message }
}
