import BellwireClientCore
import CallCore
import Coordinator

/// A service in memory, for an app's own tests: broker and coordinator in this process, with the coordinator's own code, so that calls ring,
/// expire, are cancelled and answered as they are in a deployment. No port is opened, and nothing is left behind.
///
///     let service = TestService()
///     let alice = SignalingClient(service.configuration(user: "alice"))
///     try await alice.connect()
public final class TestService: Sendable {
    /// Times that a test may want shorter than a deployment has them.
    public struct Timings: Sendable {
        /// How long a member of an advanced call may be silent (docs/protocol.md, section 3, Heartbeat); 60 s by default.
        public var heartbeatTimeout: Duration = .seconds(60)
        /// How often the SDK is told to beat, in whole seconds from 1 on; 20 s by default.
        public var heartbeatInterval: Duration = .seconds(20)
        /// How long an inviter may be away while it rings; 10 s by default.
        public var callerGrace: Duration = .seconds(10)

        public init() {}
    }

    fileprivate let broker = MemoryBroker()
    private let coordinator: MemoryCoordinator

    /// Serves at once, until it is let go and so are its clients' configurations.
    public init(timings: Timings = Timings()) {
        var settings = ServiceSettings()
        settings.calls.heartbeatTimeout = timings.heartbeatTimeout.milliseconds
        settings.calls.callerGrace = timings.callerGrace.milliseconds
        settings.heartbeatInterval = timings.heartbeatInterval.milliseconds
        coordinator = MemoryCoordinator(settings, broker)
        coordinator.start()
    }

    deinit { coordinator.stop() }

    /// What clients reach this service by.
    public var transport: any Transport { ServiceTransport(service: self) }

    /// A client's configuration: a user and one of its devices.
    ///
    /// Ends the process when a name is not of its form: a mistake in a test.
    public func configuration(user: String, device: String = "phone") -> SignalingClient.Configuration {
        guard let userID = UserID(user), let deviceID = DeviceID(device) else {
            preconditionFailure("\(user)/\(device) is no device of a user")
        }
        return SignalingClient.Configuration(user: userID, device: deviceID, transport: transport)
    }

    /// Breaks the connections of all devices of a user, as a network does that goes away: the broker publishes their wills. The clients
    /// connect again by themselves, unless they are kept away.
    public func breakConnections(of user: String) { broker.breakConnections(of: user) }

    /// From now on nobody can connect, and who is connected is cut off.
    public func goOffline() { broker.goOffline() }

    /// Clients can connect again.
    public func goOnline() { broker.goOnline() }

    /// The coordinator dies in the middle of whatever it does, and another one takes its place: calls live on.
    public func replaceCoordinator() { coordinator.replace() }
}

/// A service lives as long as whoever can reach it.
private struct ServiceTransport: Transport {
    let service: TestService

    func connect(
        _ request: ConnectionRequest, events: @escaping @Sendable (TransportEvent) -> Void
    ) async throws(TransportError) -> any TransportConnection {
        try await service.broker.connect(request, events: events)
    }
}
