@testable import AppleTransport
import BellwireClient
import BellwireMosquitto
import MQTTProtocol
import Synchronization
import Testing

/// The transports: the tests ask the same of all. `network` is the transport of Apple's platforms, over a stand-in for
/// Network.framework that has no TLS.
enum Carrier: CaseIterable, CustomTestStringConvertible {
    case own, mosquitto, network

    static let withTLS: [Carrier] = [.own, .mosquitto]

    var testDescription: String { "\(self)" }

    func transport(_ port: Int, authority: String? = nil) -> any BellwireTransport {
        let scheme = authority == nil ? "mqtt" : "mqtts"
        switch self {
        case .own:
            let broker = BrokerAddress(url: "\(scheme)://127.0.0.1:\(port)")!
            return MQTTTransport(broker: broker, certificateAuthorityFile: authority)
        case .mosquitto:
            var transport = MosquittoTransport(url: "\(scheme)://127.0.0.1:\(port)")!
            transport.certificateAuthorityFile = authority
            return transport
        case .network: return NetworkTransport(broker: BrokerAddress(url: "\(scheme)://127.0.0.1:\(port)")!)
        }
    }
}

/// Does as `MQTTTransport` does on Apple's platforms.
private struct NetworkTransport: BellwireTransport {
    let broker: BrokerAddress

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let settings = MQTTTransport(broker: broker).settings(request)
        return try await NetworkConnection.connect(settings, request.topics, QoS(request.qos), events: events) {
            BellwireTransportError($0)
        }
    }
}

/// A device at the broker, and the messages that it has received.
final class Device: Sendable {
    let connection: any BellwireTransportConnection
    private let inbox: Inbox

    init(
        _ transport: any BellwireTransport, _ clientID: String = "device", topics: [String] = [],
        will: BellwireOutgoingMessage? = nil, keepAlive: Duration = .seconds(60),
        qos: BellwireQoS = .atMostOnce
    ) async throws(BellwireTransportError) {
        let inbox = Inbox()
        let request = BellwireConnectionRequest(
            clientID: clientID, username: "user", password: "password", will: will, keepAlive: keepAlive,
            topics: topics, qos: qos)
        connection = try await transport.connect(request) { inbox.add($0) }
        self.inbox = inbox
    }

    var received: [String] { inbox.received }
    var closed: BellwireTransportError? { inbox.closed }

    func publish(_ text: String, _ topic: String) throws {
        try connection.publish(BellwireOutgoingMessage(topic: topic, payload: Array(text.utf8), expirySeconds: 30))
    }

    /// Returns the received messages, once there are so many.
    func received(_ count: Int) async throws -> [String] {
        try await eventually { self.received.count >= count }
        return received
    }

    /// Returns why the connection has ended.
    func closing() async throws -> BellwireTransportError.Kind? {
        try await eventually { self.closed != nil }
        return closed?.kind
    }
}

/// The events that a transport told, in order. No event may come after `closed`.
private final class Inbox: Sendable {
    private let state = Mutex<(received: [String], closed: BellwireTransportError?)>(([], nil))

    var received: [String] { state.withLock(\.received) }
    var closed: BellwireTransportError? { state.withLock(\.closed) }

    func add(_ event: BellwireTransportEvent) {
        state.withLock { state in
            #expect(state.closed == nil, "closed is the last word")
            switch event {
            case .received(let payload, _): state.received.append(String(decoding: payload, as: UTF8.self))
            case .closed(let error): state.closed = error
            }
        }
    }
}

/// Waits for `condition`, for twenty seconds at most.
func eventually(
    _ condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let end = ContinuousClock.now + .seconds(20)
    while !condition(), ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(5)) }
    try #require(condition(), sourceLocation: sourceLocation)
}

/// Returns why a connection did not come about; nil when it did.
func failure<Failure: Error>(_ attempt: () async throws(Failure) -> Void) async -> Failure? {
    do throws(Failure) {
        try await attempt()
        return nil
    } catch {
        return error
    }
}
