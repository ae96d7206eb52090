import BellwireClient
import BellwireMosquitto
import Foundation
import SignalingProtocol

/// The transport over which the devices speak.
enum TransportKind: String, Sendable {
    case own, mosquitto

    func transport(to url: String) -> any BellwireTransport {
        switch self {
        case .own: BrokerAddress(url: url).map { MQTTTransport(broker: $0) }!
        case .mosquitto: MosquittoTransport(url: url)!
        }
    }
}

/// All devices, by number. A device does its orders one after another; orders of different devices do not wait for each
/// other.
final class Devices {
    private let transport: TransportKind
    private let reporter = Reporter()
    private var queues: [Int: AsyncStream<Order>.Continuation] = [:]

    init(transport: TransportKind) { self.transport = transport }

    func take(_ order: Order) {
        let queue = queues[order.number] ?? begin(order.number)
        queue.yield(order)
    }

    private func begin(_ number: Int) -> AsyncStream<Order>.Continuation {
        let (orders, queue) = AsyncStream.makeStream(of: Order.self)
        queues[number] = queue
        let device = DeviceTask(number: number, transport: transport, reporter: reporter)
        Task { await device.serve(orders) }
        return queue
    }
}

/// A device and its orders: the requests that an app would make to the SDK.
private struct DeviceTask: Sendable {
    let number: Int
    let transport: TransportKind
    let reporter: Reporter

    func serve(_ orders: AsyncStream<Order>) async {
        var client: SignalingClient?
        for await order in orders {
            switch order.order {
            case .begin: client = begin(order.settings!)
            case .request: client.map { request(order.text!, $0) }
            case .signal: client.map { signal(order.text!, $0) }
            case .find: client?.networkChanged()
            case .end:
                await client?.disconnect()
                client.map(reportRefused)
                client = nil
            case .sync: reporter.report(["sync": order.token!])
            }
        }
    }

    private func report(_ fields: [String: Any]) {
        reporter.report(fields.merging(["device": number]) { own, _ in own })
    }

    private func begin(_ settings: Order.Settings) -> SignalingClient {
        let tapped = CountedTransport(transport.transport(to: settings.url)) { report(["handed": 1]) }
        var configuration = SignalingClient.Configuration(
            user: UserID(settings.user)!, device: DeviceID(settings.device)!, transport: tapped)
        configuration.keepAlive = .seconds(settings.keepAlive)
        configuration.topics = Topics(root: settings.topicRoot)!
        configuration.token = settings.token
        configuration.qos = BellwireQoS(rawValue: settings.qos)!
        let client = SignalingClient(configuration)
        client.observe { told($0) }
        client.connect { _ in }
        return client
    }

    /// A request of the test's own wording, if the SDK's types can say it.
    private func request(_ text: String, _ client: SignalingClient) {
        guard case .success(.request(let request)) = UpMessage.decode(Array(text.utf8)) else {
            return report(["beyond": "asks for what the SDK's types cannot say"])
        }
        guard says(.request(request), text) else {
            return report(["beyond": "words its request as the SDK does not"])
        }
        client.perform(request) { outcome in
            switch outcome {
            case .success, .answer: report(["outcome": request.id.string])
            case .failure(let error): report(["outcome": request.id.string, "code": error.code.rawValue])
            }
        }
    }

    private func signal(_ text: String, _ client: SignalingClient) {
        guard case .success(.signal(let signal)) = UpMessage.decode(Array(text.utf8)), says(.signal(signal), text)
        else {
            return report(["beyond": "sends a signal that the SDK's types cannot say"])
        }
        client.signal(signal.callID, signal.data, to: signal.to)
    }

    /// Whether the message has all fields that the test wrote. The SDK may add fields: defaults that the test left out.
    private func says(_ message: UpMessage, _ text: String) -> Bool {
        func fields(_ data: Data) -> [String: Any] {
            (try? JSONSerialization.jsonObject(with: data)) as? [String: Any] ?? [:]
        }
        let said = fields(Data(message.encoded()))
        return fields(Data(text.utf8)).allSatisfy { name, value in
            said[name].map { NSDictionary(dictionary: ["": value]).isEqual(to: ["": $0]) } ?? false
        }
    }

    // MARK: News for the app

    private func told(_ event: ClientEvent) {
        switch event {
        case .event(let event):
            report(["told": "event", "callID": event.callID.string, "revision": event.revision])
        case .message(let message): report(["told": "message", "messageID": message.messageID.string])
        case .signal(let signal): report(["told": "signal", "signal": signal.place])
        case .connection(let state): connection(state)
        case .online, .offline, .snapshot, .invitationExpired, .gone, .receipt, .tokenWillExpire, .error: break
        }
    }

    private func connection(_ state: BellwireConnectionState) {
        switch state {
        case .reconnecting(let reason): report(["closed": reason, "refused": false])
        case .refused(let reason): report(["closed": reason, "refused": true])
        case .tokenExpired: report(["closed": "the token has ended", "refused": true])
        case .takenOver: report(["closed": "another connection has this device id", "refused": false])
        case .disconnected, .connecting, .connected: break
        }
    }

    private func reportRefused(_ client: SignalingClient) {
        guard client.refusedInvitations > 0 else { return }
        report(["noRoom": "\(client.refusedInvitations) invitations"])
    }
}

extension BellwireSignal {
    /// The place of the signal in its stream, as on the wire.
    fileprivate var place: [String: Any] {
        var fields: [String: Any] = ["callID": callID.string]
        fields["from"] = from.userID.string
        fields["fromDevice"] = from.deviceID.string
        fields["stream"] = stream
        fields["seq"] = seq
        return fields
    }
}
