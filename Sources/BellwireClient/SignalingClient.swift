import MQTTClient
import SignalingProtocol
import Synchronization
import SystemThreads

/// A device of a user: makes calls, answers them, and is told of them.
///
/// It keeps itself connected: after a lost connection it reconnects (after 0.25 s, then slower up to 8 s), tells the
/// service that it is back, and learns what it missed. Requests made meanwhile are kept, and sent again until they are
/// answered or their time limit has passed. It acknowledges events by itself.
///
/// All methods may be called from any task. A client that is let go without `disconnect()` disconnects by itself.
public final class SignalingClient: Sendable {
    public struct Configuration: Sendable {
        /// The user.
        public var user: UserID
        /// This device, one of the user's. A second client under the same id replaces the first.
        public var device: DeviceID
        /// Where the broker is. A username in it is used as it is; without one it is the user id.
        public var broker: BrokerAddress
        /// The MQTT password, when the broker checks one (docs/protocol.md, section 1, Tokens).
        public var token: String?
        /// Gives a token, when the app has to ask somebody for it. Asked before the first connection, a minute before a token
        /// ends (the client then connects again, and the app sees nothing of it), and when the broker refuses the one there
        /// is. When it throws, the client tries again as after a lost connection. `token` is then not used.
        public var tokenProvider: (@Sendable () async throws -> String)?
        /// The topics of the deployment; `bellwire/v1` by default.
        public var topics = Topics.standard
        /// With `mqtts://`: a file with the certificate authorities to trust; the system's when nil.
        public var certificateAuthorityFile: String?
        /// How long the token provider may take; 30 s by default.
        public var tokenTimeout: Duration = .seconds(30)
        /// How long `connect()` waits for the broker; 10 s by default.
        public var connectTimeout: Duration = .seconds(10)
        /// How long the connection may be silent before the broker is asked for a sign of life; 60 s by default, 1 s to 18 h. An
        /// idle device costs the broker that many pings. A device that vanishes without a word is known to be lost after one and a
        /// half times as long, and notices itself that a silent network has let it down after that long and 5 s more, or 6 s after
        /// it asked for something.
        public var keepAlive: Duration = .seconds(60)
        /// How long a request is tried; 30 s by default. It then throws `noResponse`.
        public var requestTimeout: Duration = .seconds(30)
        /// Whether this device is one of the user's phones; true by default. When false it only asks, as a tool or a server
        /// does: it publishes no presence and listens to its own topic alone, so that it is never rung, never counted online
        /// and acks nothing in the user's name. `events` then brings receipts and what responses tell, and never `online`.
        public var publishesPresence = true
        /// How many events are kept for an app that does not read them; 1024 by default. Beyond it the oldest are
        /// dropped and counted in `droppedEvents`: each later event of a call carries the whole call.
        public var eventBuffer = 1024

        public init(user: UserID, device: DeviceID, broker: BrokerAddress) {
            self.user = user
            self.device = device
            self.broker = broker
        }

        /// What is known here of why a connection failed, beside the error; it is given what was shown as the password.
        package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }

        var address: DeviceAddress { DeviceAddress(userID: user, deviceID: device) }
    }

    public let configuration: Configuration
    /// What happens, in order. For one reader. Ends after `disconnect()`.
    public let events: AsyncStream<ClientEvent>

    let mailbox = Mailbox()
    private let eventSink: EventSink
    private let requestPrefix = randomToken()
    private let requestCount = Atomic<UInt64>(0)

    public init(_ configuration: Configuration) {
        self.configuration = configuration
        let (stream, continuation) = AsyncStream.makeStream(
            of: ClientEvent.self, bufferingPolicy: .bufferingNewest(max(1, configuration.eventBuffer)))
        events = stream
        eventSink = EventSink(continuation)
    }

    deinit {
        // The thread does not hold the client: it says goodbye and ends by itself.
        if !mailbox.stop() { mailbox.close() }
    }

    /// How many events were dropped because the app did not read them.
    public var droppedEvents: Int { eventSink.dropped }

    /// How many invitations, and copies of them, were not taken in. 256 calls are known at once. When that many live, the
    /// newest one of whoever rings most often is refused or, when it was told already, `gone`; a call in which this device
    /// takes part never is. What is refused is not acked: the service sends it again, and it rings once there is room.
    public var refusedInvitations: Int { eventSink.refused }

    /// Connects, and returns once requests and events can flow. When the broker is not reached within
    /// `connectTimeout`, or refuses, this throws `notConnected`; the client goes on trying until `disconnect()`.
    ///
    /// That the service itself is there is told by the event `online`.
    public func connect() async throws(SignalingError) {
        var timer: Task<Void, any Error>?
        let failure = await withCheckedContinuation { waiter in
            switch mailbox.connectRequested(waiter) {
            case .start(let number):
                timer = limitWait(number)
                startDriver()
            case .wait(let number): timer = limitWait(number)
            case .done(let error): waiter.resume(returning: error)
            }
        }
        timer?.cancel()
        if let failure { throw failure }
    }

    private func limitWait(_ waiter: Int) -> Task<Void, any Error> {
        let (mailbox, configuration) = (mailbox, configuration)
        return Task {
            try await Task.sleep(for: configuration.connectTimeout)
            mailbox.connectTimedOut(waiter: waiter, broker: configuration.broker)
        }
    }

    private func startDriver() {
        let (configuration, mailbox, sink) = (configuration, mailbox, eventSink)
        // MQTTConnection wants one thread, which blocks: not one of Swift's few.
        let isStarted = startDetachedThread {
            ConnectionDriver(configuration, mailbox: mailbox, deliver: sink.deliver, refused: sink.refuse).run()
            sink.finish()
        }
        if !isStarted { mailbox.close() }
    }

    /// Says goodbye to the service and closes the connection. Unanswered requests throw `disconnected`. The client
    /// cannot be connected again.
    public func disconnect() async {
        guard mailbox.stop() else {
            mailbox.close()
            eventSink.finish()
            return
        }
        let mailbox = mailbox
        let timer = Task {
            // The thread may be waiting for a broker that does not answer TCP; it ends by itself later.
            try await Task.sleep(for: .seconds(2))
            mailbox.close()
        }
        await withCheckedContinuation { mailbox.closed($0) }
        timer.cancel()
        eventSink.finish()
    }

    /// A new call id: 128 random bits. Chosen by the caller, so that a call can be cancelled before the service has
    /// answered the invitation.
    public static func makeCallID() -> CallID {
        guard let callID = CallID(randomToken()) else { preconditionFailure("32 hex digits are a call id") }
        return callID
    }

    /// A new message id: 128 random bits.
    static func makeMessageID() -> MessageID {
        guard let messageID = MessageID(randomToken()) else { preconditionFailure("32 hex digits are a message id") }
        return messageID
    }

    func makeRequestID() -> RequestID {
        let number = requestCount.wrappingAdd(1, ordering: .relaxed).newValue
        guard let id = RequestID("\(requestPrefix)-\(number)") else { preconditionFailure("hex and digits are an id") }
        return id
    }
}

/// The stream's end of the thread.
private final class EventSink: Sendable {
    private let continuation: AsyncStream<ClientEvent>.Continuation
    private let dropCount = Atomic<Int>(0)
    private let refusalCount = Atomic<Int>(0)

    init(_ continuation: AsyncStream<ClientEvent>.Continuation) { self.continuation = continuation }

    var dropped: Int { dropCount.load(ordering: .relaxed) }
    var refused: Int { refusalCount.load(ordering: .relaxed) }

    func refuse() { refusalCount.wrappingAdd(1, ordering: .relaxed) }

    func deliver(_ event: ClientEvent) {
        if case .dropped = continuation.yield(event) { dropCount.wrappingAdd(1, ordering: .relaxed) }
    }

    func finish() { continuation.finish() }
}
