import SignalingProtocol
import Synchronization

/// A device of a user: makes calls, answers them, and is told of them.
///
/// It keeps itself connected: after a lost connection it reconnects (after 0.25 s, then slower up to 8 s), tells the
/// service that it is back, and learns what it missed. Requests made meanwhile are kept, and sent again until they are
/// answered or their time limit has passed. It acknowledges events by itself.
///
/// All methods may be called from any task. A client is to be kept as long as calls are to ring: one that is let go without `disconnect()`
/// disconnects by itself, also while there are `Call` objects of it. (A `CallManager` keeps its client.)
///
/// A task that is cancelled while it waits here goes on waiting for its answer, `Configuration.requestTimeout` at most: what was asked of the
/// service cannot be taken back by that.
public final class SignalingClient: Sendable {
    public struct Configuration: Sendable {
        /// The user.
        public var user: UserID
        /// This device, one of the user's. A second client under the same id replaces the first.
        public var device: DeviceID
        /// What carries messages to the broker. With the module `BellwireClient` the configuration is made from the broker's address.
        public var transport: any Transport
        /// The MQTT password, when the broker checks one (docs/protocol.md, section 1, Tokens).
        public var token: String?
        /// Gives a token, when the app has to ask somebody for it. Asked before the first connection, a minute before a token
        /// ends (the client then connects again, and the app sees nothing of it), and when the broker refuses the one there
        /// is. When it throws, the client tries again as after a lost connection. `token` is then not used.
        public var tokenProvider: (@Sendable () async throws -> String)?
        /// The topics of the deployment; `bellwire/v1` by default.
        public var topics = Topics.standard
        /// How long the token provider may take; 30 s by default.
        public var tokenTimeout: Duration = .seconds(30)
        /// How long `connect()` waits for broker and service; 10 s by default.
        public var connectTimeout: Duration = .seconds(10)
        /// How long the connection may be silent before the broker is asked for a sign of life; 60 s by default, 1 s to 18 h. An
        /// idle device costs the broker that many pings. A device that vanishes without a word is known to be lost after one and a
        /// half times as long, and notices itself that a silent network has let it down after that long and 5 s more, or 6 s after
        /// it asked for something.
        public var keepAlive: Duration = .seconds(60)
        /// How long a request is tried; 30 s by default. It then throws `noResponse`. The time in which it waits for the answer to an earlier
        /// request counts: requests on one call leave one after another, and those that begin a call after those that leave another one.
        public var requestTimeout: Duration = .seconds(30)
        /// Whether this device is one of the user's phones; true by default. When false it only asks, as a tool or a server
        /// does: it publishes no presence and listens to its own topic alone, so that it is never rung, never counted online
        /// and acks nothing in the user's name. `events` then brings receipts and what responses tell, and never `online`.
        public var publishesPresence = true
        /// Whether heartbeats are sent for the calls in which this device is (docs/protocol.md, section 3); true by default. When false the app
        /// sends them, at least every 20 s: one that hangs is then taken for gone.
        public var sendsHeartbeats = true
        /// Whether the client goes on with calls in which an earlier run of the app left this device. When false it sends no heartbeats for
        /// them until the app touches them, and names them in `orphanedCalls`.
        package var resumesCalls = true
        /// How many events are kept for an app that does not read them; 1024 by default. Beyond it the oldest are
        /// dropped and counted in `droppedEvents`: each later event of a call carries the whole call.
        public var eventBuffer = 1024

        public init(user: UserID, device: DeviceID, transport: any Transport) {
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
        // The driver does not hold the client: it says goodbye and ends by itself.
        driver.stop {}
    }

    // MARK: What happens

    /// What happens, in order: each access is another reader, of all that is told from then on; the first one also of what was told before.
    /// For each the newest `Configuration.eventBuffer` events are kept. Ends after `disconnect()`.
    ///
    /// The outcome of a request comes before the events of its success.
    public var events: AsyncStream<ClientEvent> { driver.events.stream() }

    /// Calls that begin to ring here, each once; readers as those of `events`. The calls that rang or were under way when the client
    /// connected are among them.
    public var incomingCalls: AsyncStream<Call> { driver.incomingCalls.stream() }

    /// Where the client stands. `ClientEvent.connection` tells each change.
    public var connectionState: ConnectionState { driver.state.withLock(\.standing) }

    /// The TURN servers of the deployment, for the media, as the service told them last; their credentials last for an hour (docs/protocol.md,
    /// section 1). Empty where there are none, and before the client has connected.
    public var iceServers: [IceServer] { driver.state.withLock(\.iceServers) }

    /// The calls of this user that live, as far as this device knows, the oldest first.
    public var calls: [Call] { driver.state.withLock(\.book.live) }

    /// Of all readers of `events` together: how many events were dropped because they were not read.
    public var droppedEvents: Int { driver.events.dropped }

    /// How many invitations, and copies of them, were not taken in. 256 calls are known at once. When that many live, the
    /// newest one of whoever rings most often is refused or, when it was told already, `gone`; a call in which this device
    /// takes part never is. What is refused is not acked: the service sends it again, and it rings once there is room.
    public var refusedInvitations: Int { driver.refusals.load(ordering: .relaxed) }

    /// Hears every event at its place in the one order, on any thread; it must not take long. What it does with the client is taken after
    /// what is being told. Nil for nobody.
    package func observe(_ observer: (@Sendable (ClientEvent) -> Void)?) { driver.observer.withLock { $0 = observer } }

    // MARK: Connecting

    /// Connects, and returns once the service knows this device: calls ring here from then on. When that takes longer than
    /// `connectTimeout`, or the broker refuses, this throws `notConnected` (`tokenExpired` when that is why); the client goes on trying
    /// until `disconnect()`.
    ///
    /// Without presence (`Configuration.publishesPresence`) it returns when the broker is reached.
    public func connect() async throws(SignalingError) {
        let failure = await withCheckedContinuation { waiter in driver.connect { waiter.resume(returning: $0) } }
        if let failure { throw failure }
    }

    /// The same; `then` is called in the order of events, after `ClientEvent.connection(.connected)` and before what waited for this device.
    package func connect(then waiter: @escaping @Sendable (SignalingError?) -> Void) { driver.connect(then: waiter) }

    /// Returns when the broker is reached: requests can be made from then on, and are answered as soon as the service is there.
    package func connectToBroker() async throws(SignalingError) {
        let failure = await withCheckedContinuation { waiter in
            driver.connect(wantsService: false) { waiter.resume(returning: $0) }
        }
        if let failure { throw failure }
    }

    /// Another token, before the present one ends or after: the client connects with it, and the app sees nothing of that but the
    /// connection states if there was no connection.
    public func renew(_ token: String) { driver.renew(token) }

    /// The app learned that the network is there again, or is another one, as a phone's system tells it: a client without connection tries at
    /// once and not at its next time, one with a connection asks the broker for a sign of life.
    public func networkChanged() { driver.networkChanged() }

    /// Says goodbye to the service and closes the connection. Unanswered requests throw `disconnected`. The client
    /// cannot be connected again.
    public func disconnect() async {
        await withCheckedContinuation { waiter in driver.stop { waiter.resume() } }
    }

    // MARK: Ids

    /// A new call id: 128 random bits. Chosen by the caller, so that a call can be cancelled before the service has
    /// answered the invitation.
    public static func makeCallID() -> CallID {
        guard let callID = CallID(randomToken()) else { preconditionFailure("32 hex digits are a call id") }
        return callID
    }

    /// A new message id: 128 random bits.
    package static func makeMessageID() -> MessageID {
        guard let messageID = MessageID(randomToken()) else { preconditionFailure("32 hex digits are a message id") }
        return messageID
    }
}
