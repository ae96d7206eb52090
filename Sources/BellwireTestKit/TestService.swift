import BellwireClientCore
import CallCore
import Coordinator

/// A service in memory, for an app's own tests: a broker and a coordinator in this process. The coordinator runs its
/// real code, so that calls ring, expire, are cancelled and answered as in a deployment. The service opens no port and
/// leaves no files behind.
///
///     let service = TestService()
///     let alice = SignalingClient(service.configuration(user: "alice"))
///     try await alice.connect()
public final class TestService: Sendable {
    /// Times that a test may want shorter than in a deployment.
    public struct Timings: Sendable {
        /// How long a member of an advanced call may be silent (docs/protocol.md, section 3, Heartbeat); 60 s by
        /// default.
        public var heartbeatTimeout: Duration = .seconds(60)
        /// The interval between heartbeats that `welcome` tells the SDK: whole seconds, at least 1; 20 s by default.
        public var heartbeatInterval: Duration = .seconds(20)
        /// How long an inviter may be offline while the call rings (section 3, Caller lost); 10 s by default.
        public var callerGrace: Duration = .seconds(10)

        public init() {}
    }

    fileprivate let broker = MemoryBroker()
    private let coordinator: MemoryCoordinator

    /// Creates a service that serves at once, until this object and its clients' configurations are released.
    /// - Parameter mediaSession: returns the media session of a user's device in a call; calls have no media server
    ///   without this function.
    public init(
        timings: Timings = Timings(),
        mediaSession: (@Sendable (CallID, UserID, DeviceID) -> BellwireMediaSession?)? = nil
    ) {
        var settings = ServiceSettings()
        settings.calls.heartbeatTimeout = timings.heartbeatTimeout.milliseconds
        settings.calls.callerGrace = timings.callerGrace.milliseconds
        settings.heartbeatInterval = timings.heartbeatInterval.milliseconds
        if mediaSession != nil { settings.media = MediaUse([], other: "test") }
        coordinator = MemoryCoordinator(settings, broker, mediaSession)
        coordinator.start()
    }

    deinit { coordinator.stop() }

    /// The transport by which clients reach this service.
    public var transport: any BellwireTransport { ServiceTransport(service: self) }

    /// Returns a configuration for the user's device.
    ///
    /// Ends the process when an id is not valid (docs/protocol.md, section 1), since that is a mistake in the test.
    public func configuration(user: String, device: String = "phone") -> SignalingClient.Configuration {
        guard let userID = UserID(user), let deviceID = DeviceID(device) else {
            preconditionFailure("\(user)/\(device) is not a device of a user")
        }
        return SignalingClient.Configuration(user: userID, device: deviceID, transport: transport)
    }

    /// Breaks the connections of all devices of a user, like a lost network: the broker publishes their wills. The
    /// clients reconnect by themselves, unless the service is offline.
    public func breakConnections(of user: String) { broker.breakConnections(of: user) }

    /// Breaks all connections, and refuses new connections until `goOnline()`.
    public func goOffline() { broker.goOffline() }

    /// Lets clients connect again.
    public func goOnline() { broker.goOnline() }

    /// Ends the coordinator in the middle of its work, and starts another coordinator in its place: calls live on.
    public func replaceCoordinator() { coordinator.replace() }
}

/// A transport that keeps its service alive.
private struct ServiceTransport: BellwireTransport {
    let service: TestService

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        try await service.broker.connect(request, events: events)
    }
}
