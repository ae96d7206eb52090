import SignalingProtocol
import Basics

/// A device of a user: makes and answers calls, and gets the events about its calls.
///
/// The client keeps itself connected: after a lost connection the client reconnects (after 0.25 s, then slower up to 8
/// s), publishes its presence, and catches up with the calls. Requests made meanwhile are kept, and resent until they
/// are answered or their time limit has passed. The client acknowledges events by itself.
///
/// All methods may be called from any task. An app keeps the client as long as calls are to ring: a client that is
/// released without `disconnect()` disconnects by itself, even while its `BellwireCall` objects exist. (A
/// `BellwireCallManager` keeps its client.)
///
/// A task that is cancelled while waiting for a response goes on waiting, `Configuration.requestTimeout` at most: the
/// cancellation cannot take a request back.
public final class SignalingClient: Sendable {
    public struct Configuration: Sendable {
        /// The user.
        public var user: UserID
        /// This device, one of the user's. A second client with the same id replaces the first.
        public var device: DeviceID
        /// The transport that carries messages to the broker. With the module `BellwireClient` the configuration is
        /// made from the broker's address.
        public var transport: any BellwireTransport
        /// The MQTT password, when the broker checks tokens (docs/protocol.md, section 1, Tokens).
        public var token: String?
        /// Returns a token, for an app that has to fetch its tokens. The client calls the provider before the first
        /// connection, a minute before a token ends (the client then connects again, and the app is not told), and when
        /// the broker refuses the present token. When the provider throws or gives no token in time, and there is no
        /// connection, the state is `refused`, and the client asks again by itself, after 0.25 s, then slower up to 8
        /// s. While the present token lasts, the client keeps its connection and asks every 5 s. `token` is then not
        /// used.
        public var tokenProvider: (@Sendable () async throws -> String)?
        /// The topics of the deployment; `bellwire/v1` by default.
        public var topics = Topics.standard
        /// The time limit of the token provider; 30 s by default.
        public var tokenTimeout: Duration = .seconds(30)
        /// How long `connect()` waits for the broker and the service; 10 s by default.
        public var connectTimeout: Duration = .seconds(10)
        /// How long the connection may be silent before the client asks the broker for a sign of life; 60 s by default,
        /// 1 s to 18 h. An idle device costs the broker a ping in each such time. The broker counts a device that
        /// vanishes as lost after 1.5 times as long. The device itself notices a dead network after this time and 5 s
        /// more, or 6 s after a request.
        public var keepAlive: Duration = .seconds(60)
        /// The QoS of this device's subscriptions and messages at the broker; 0 by default.
        public var qos = BellwireQoS.atMostOnce
        /// The time limit of a request, 30 s by default; the request then throws `noResponse`. The time that a request
        /// waits for the answer to an earlier request counts: requests on the same call leave in turn, and a request
        /// that begins a call leaves after the requests that leave another call.
        public var requestTimeout: Duration = .seconds(30)
        /// Whether this device publishes its presence, and rings as one of the user's devices; true by default. When
        /// false the device only makes requests, as a tool or a server does: the device listens to its own topic alone,
        /// so the device never rings, never counts as online and acks no message in the user's name. `events` then
        /// brings receipts and the calls of responses, and never `online`.
        public var publishesPresence = true
        /// Whether the client sends heartbeats for this device's calls (docs/protocol.md, section 3); true by default.
        /// When false the app sends the heartbeats, at least every 20 s: the service then notices an app that hangs.
        public var sendsHeartbeats = true
        /// Whether the client goes on with calls in which an earlier run of the app left this device. When false the
        /// client sends no heartbeats for these calls until the app touches such a call, and `orphanedCalls` names the
        /// calls.
        package var resumesCalls = true
        /// Takes the lines of the client's log: connections, and the names, ids and outcomes of requests and events. No
        /// line has the client's token or the content of a message; the errors of a transport of the app's own come in
        /// the transport's words. Called on any thread, a line at a time and in order; returns soon. Nil by default:
        /// there is no log.
        public var log: (@Sendable (BellwireLogLevel, String) -> Void)?
        /// The number of unread events that are kept; 1024 by default. Beyond that number the oldest events are dropped
        /// and counted in `droppedEvents`. A drop loses no state, since each later event of a call carries the whole
        /// call.
        public var eventBuffer = 1024

        public init(user: UserID, device: DeviceID, transport: any BellwireTransport) {
            self.user = user
            self.device = device
            self.transport = transport
        }

        var address: DeviceAddress { DeviceAddress(userID: user, deviceID: device) }
    }

    public let configuration: Configuration
    let driver: ClientDriver
    var requests: RequestMaker { driver.requests }

    public init(_ configuration: Configuration) {
        self.configuration = configuration
        driver = ClientDriver(configuration)
    }

    deinit {
        // The driver does not hold the client: the driver logs out and ends by itself.
        driver.stop {}
    }

    // MARK: Events and state

    /// The events of this client, in order. Each access returns another reader of all events from then on; the first
    /// reader also gets the earlier events. Each reader keeps the newest `Configuration.eventBuffer` events. Ends after
    /// `disconnect()`.
    ///
    /// The outcome of a request comes before the events of its success.
    public var events: AsyncStream<ClientEvent> { driver.events.stream() }
    /// The events from now on; takes no events from the first reader of `events`.
    package var eventsFromNow: AsyncStream<ClientEvent> { driver.events.stream(fromNow: true) }

    /// The calls that begin to ring here. Each call comes once. Several readers behave as with `events`. Calls that
    /// rang before the client connected are included; calls that were under way are only in `calls`.
    public var incomingCalls: AsyncStream<BellwireCall> { driver.incomingCalls.stream() }

    /// The present connection state. `ClientEvent.connection` reports each change.
    public var connectionState: BellwireConnectionState { driver.state.withLock(\.standing) }

    /// The TURN servers of the deployment, for the media, from the newest welcome; their credentials last for an hour
    /// (docs/protocol.md, section 1, TURN). Empty where there are none, and before the client has connected.
    public var iceServers: [BellwireIceServer] { driver.state.withLock(\.iceServers) }

    /// The live calls of this user, as far as this device knows, the oldest first.
    public var calls: [BellwireCall] { driver.state.withLock(\.book.live) }

    /// The number of events that were dropped because they were not read, of all readers of `events` together.
    public var droppedEvents: Int { driver.events.dropped }

    /// The number of invitations, resends included, that the client has not taken in. The client knows 256 calls at
    /// once. When that many are live, the client refuses the newest call of the inviter with the most ringing calls or,
    /// if the app knows that call already, reports that call as `gone`; a call of which this device is part is never
    /// refused. A refused invitation is not acked: the service resends the invitation, which rings once there is room
    /// (docs/protocol.md, section 5).
    public var refusedInvitations: Int { driver.refusals.withLock(\.self) }

    /// Sets the observer of every event, called at the event's place in the driver's order, on any thread; the observer
    /// must return soon. Calls that the observer makes on the client take effect after the present event. Nil removes
    /// the observer.
    package func observe(_ observer: (@Sendable (ClientEvent) -> Void)?) { driver.observer.withLock { $0 = observer } }

    // MARK: Connecting

    /// Connects, and returns once the service knows this device: calls ring here from then on. After a failure, also
    /// when this method throws, the client goes on trying by itself, until `disconnect()`.
    ///
    /// Without presence (`Configuration.publishesPresence`) this returns when the broker is reached.
    ///
    /// - Throws: `notConnected` after `connectTimeout`, or with the next attempt when the broker refuses the device,
    ///   TLS fails or the token provider fails: `connectionState` is then `refused`. `tokenExpired` when the token has
    ///   ended: by the service's word, or, when the broker refuses the token, by this device's clock. `disconnected`
    ///   when the client has ended: after `disconnect()`, or when another client has taken the device id.
    public func connect() async throws(SignalingError) {
        let failure = await withCheckedContinuation { waiter in driver.connect { waiter.resume(returning: $0) } }
        if let failure { throw failure }
    }

    /// Connects like `connect()`. `waiter` is called in the order of events, after `ClientEvent.connection(.connected)`
    /// and before the deliveries that waited for this device.
    package func connect(then waiter: @escaping @Sendable (SignalingError?) -> Void) { driver.connect(then: waiter) }

    /// Returns when the broker is reached: requests can be made from then on, and are answered as soon as the service
    /// is there.
    package func connectToBroker() async throws(SignalingError) {
        let failure = await withCheckedContinuation { waiter in
            driver.connect(wantsService: false) { waiter.resume(returning: $0) }
        }
        if let failure { throw failure }
    }

    /// Connects with another token, before or after the present token ends. The app sees only the connection states,
    /// and these only if there was no connection.
    public func renew(_ token: String) { driver.renew(token) }

    /// Notes that the network is back or has changed, on a report of the phone's system. A client without a connection
    /// tries at once; a client with a connection asks the broker for a sign of life.
    public func networkChanged() { driver.networkChanged() }

    /// Logs out and closes the connection. Unanswered requests throw `disconnected`. The client cannot be connected
    /// again.
    public func disconnect() async {
        await withCheckedContinuation { waiter in driver.stop { waiter.resume() } }
    }

    // MARK: Ids

    /// Returns a new call id: 128 random bits. The inviter chooses the id, so that a call can be cancelled before the
    /// service has answered the invitation.
    public static func makeCallID() -> CallID {
        guard let callID = CallID(randomToken()) else { preconditionFailure("32 hex digits are a call id") }
        return callID
    }

    /// Returns a new message id: 128 random bits.
    package static func makeMessageID() -> MessageID {
        guard let messageID = MessageID(randomToken()) else { preconditionFailure("32 hex digits are a message id") }
        return messageID
    }
}
