import Basics

/// The brokers of one deployment: each connection is made by the next of several transports, in an order that differs
/// from device to device. After the loss of a broker its devices thus spread over the others (docs/protocol.md,
/// section 1, Several brokers).
public final class TransportList: BellwireTransport {
    private let transports: [any BellwireTransport]
    private let next = Mutex(0)

    /// - Parameter transports: a transport for each broker, at least one.
    public convenience init(_ transports: [any BellwireTransport]) { self.init(inOrder: transports.shuffled()) }

    init(inOrder transports: [any BellwireTransport]) {
        precondition(!transports.isEmpty, "a list of transports needs at least one transport")
        self.transports = transports
    }

    public func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let place = next.withLock { next in
            defer { next = (next + 1) % transports.count }
            return next
        }
        return try await transports[place].connect(request, events: events)
    }
}
