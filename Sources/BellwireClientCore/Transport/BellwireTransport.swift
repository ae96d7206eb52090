/// A transport carries messages to a broker and back: any MQTT client. The SDK makes connections in succession, each
/// with a session and a will of its own (docs/protocol.md, section 1), and decides itself when to reconnect.
///
/// An adapter needs no queue beyond the queue of its MQTT client, no acks and no resends: the SDK has these.
public protocol BellwireTransport: Sendable {
    /// Connects with a clean session and the will, subscribes to all topics with the request's QoS, and returns when
    /// the broker has granted the subscriptions. From then on the adapter calls `events` for each event, from any
    /// thread but never twice at once, and with `closed` as the last event, once, whatever the reason for the end. A
    /// connection that was not made has no events.
    ///
    /// The SDK gives up after 10 s and cancels the task.
    ///
    /// - Throws: `BellwireTransportError` of kind `unreachable`, `refused`, `tls` or another kind that says why there
    ///   is no connection.
    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection
}

/// An open connection to the broker.
public protocol BellwireTransportConnection: Sendable {
    /// Hands over a message, to be sent in the order of the calls, and returns at once. A lost connection drops the
    /// message and reports `closed`.
    ///
    /// - Throws: `BellwireTransportError` of kind `invalid` when this message can never be sent, such as a message that
    ///   is larger than the broker accepts.
    func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError)

    /// Asks the broker for a sign of life (PINGREQ), and ends the connection when none comes in some seconds: the SDK
    /// doubts that the broker is still there. An adapter that cannot do this does nothing.
    func probe()

    /// Sends the handed-over messages and DISCONNECT, so that the broker drops the will, and returns when that is done,
    /// or after 2 s. Not called after `closed`: an adapter releases its resources before `closed`.
    func close() async
}

extension BellwireTransportConnection {
    public func probe() {}
}

/// The quality of service of messages at the broker (docs/protocol.md, section 1). Acks and resends of the protocol
/// make up for a lost message at either QoS.
public enum BellwireQoS: Int, Sendable {
    /// No acknowledgments between client and broker: half as many packets. A lost message is sent again after a second.
    case atMostOnce = 0
    /// Client and broker acknowledge each message, while the connection stands.
    case atLeastOnce = 1
}

/// The contents of CONNECT and SUBSCRIBE.
public struct BellwireConnectionRequest: Sendable {
    /// The MQTT client id, `{user}/{device}`, encoded (docs/protocol.md, section 1).
    public var clientID: String
    /// The MQTT username: the user id, encoded.
    public var username: String
    /// The MQTT password: the token; nil when there is no token.
    public var password: String?
    /// The message that the broker publishes with QoS 1 when the connection is lost; nil for a client that only asks.
    public var will: BellwireOutgoingMessage?
    public var keepAlive: Duration
    /// The topics to subscribe to.
    public var topics: [String]
    /// The QoS of the subscriptions and of published messages. An adapter whose library has no PINGREQ may publish with
    /// QoS 1, so that an acknowledgment shows that the broker is there.
    public var qos: BellwireQoS

    public init(
        clientID: String, username: String, password: String?, will: BellwireOutgoingMessage?, keepAlive: Duration,
        topics: [String], qos: BellwireQoS = .atMostOnce
    ) {
        self.clientID = clientID
        self.username = username
        self.password = password
        self.will = will
        self.keepAlive = keepAlive
        self.topics = topics
        self.qos = qos
    }
}

/// A message to be published, never retained.
public struct BellwireOutgoingMessage: Sendable, Equatable {
    public var topic: String
    public var payload: [UInt8]
    /// Seconds after which the broker drops the undelivered message, with MQTT 5; nil for never.
    public var expirySeconds: UInt32?

    public init(topic: String, payload: [UInt8], expirySeconds: UInt32? = nil) {
        self.topic = topic
        self.payload = payload
        self.expirySeconds = expirySeconds
    }
}

/// An event of a connection.
public enum BellwireTransportEvent: Sendable {
    /// A message arrived. `isRetained` is the packet's retain flag.
    case received(payload: [UInt8], isRetained: Bool)
    /// The connection has ended. Final.
    case closed(BellwireTransportError)
}

/// The reason why there is no connection, or why a message cannot be sent.
public struct BellwireTransportError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// The broker cannot be reached.
        case unreachable
        /// The broker refused CONNECT or a subscription.
        case refused
        /// The connection is gone. `isClean`: the broker closed the connection without a reason. Some brokers do so
        /// when another connection displaces this connection.
        case lost(isClean: Bool)
        /// The broker said that another connection has this client id now (MQTT 5: DISCONNECT with 0x8E).
        case takenOver
        /// The broker ended the connection (MQTT 5: DISCONNECT with 0x98).
        case ended
        /// TLS cannot be set up, or the broker's certificate cannot be trusted: another attempt changes nothing.
        case tls
        /// This message cannot be sent.
        case invalid
    }

    public var kind: Kind
    /// A text for people, without secrets: the text goes into the app's log (`SignalingClient.Configuration.log`).
    public var message: String

    public init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { message }
}
