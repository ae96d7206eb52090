import BellwireClientCore
import SignalingProtocol
import Synchronization

/// A broker with a service: it welcomes a device, takes the device's messages, and sends the messages that the test
/// orders.
final class FakeService: BellwireTransport, BellwireTransportConnection {
    private struct State {
        var events: (@Sendable (BellwireTransportEvent) -> Void)?
        var sent: [JSONObject] = []
        var refusal: String?
        var refusesConnections = false
        /// The messages that wait for the device.
        var waiting: [[UInt8]] = []
    }

    private let state = Mutex(State())

    /// All `message.send` requests, in their order.
    var sent: [JSONObject] { state.withLock(\.sent) }

    /// Every `message.send` is refused with this code from now on.
    func refuse(_ code: String) { state.withLock { $0.refusal = code } }

    /// The broker refuses every connection from now on.
    func refuseConnections() { state.withLock { $0.refusesConnections = true } }

    /// Holds a message that the device is sent after its welcome.
    func holdMessage(_ text: String) {
        let message = BellwireIncomingMessage(
            messageID: MessageID("waiting")!, from: DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!),
            time: 1, data: JSONText(string: text))
        state.withLock { $0.waiting.append(DownMessage.message(message).encoded()) }
    }

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        if state.withLock(\.refusesConnections) { throw BellwireTransportError(.refused, "Not authorized") }
        state.withLock { $0.events = events }
        return self
    }

    func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
        guard let json = (try? JSONParser.parse(message.payload))?.object else { return }
        if let session = json["session"]?.string, json["online"]?.bool == true { return welcome(session) }
        guard json["type"]?.string == "message.send", let id = json["id"]?.string.flatMap(RequestID.init) else {
            return
        }
        let refusal = state.withLock { state in
            state.sent.append(json)
            return state.refusal
        }
        answer(id, json, refusal)
    }

    func close() async {}

    private func welcome(_ session: String) {
        let welcome = Welcome(session: session, serverTime: 1, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [])
        tell(DownMessage.welcome(welcome).encoded())
        for payload in state.withLock(\.waiting) { tell(payload) }
    }

    private func answer(_ id: RequestID, _ json: JSONObject, _ refusal: String?) {
        guard let messageID = json["messageID"]?.string.flatMap(MessageID.init) else { return }
        let failure = refusal.map { SignalingError(ErrorCode(rawValue: $0), "refused") }
        let outcome = failure.map(Response.Outcome.failure) ?? .answer(.message(messageID, time: 1, state: .sent))
        tell(DownMessage.response(Response(id: id, outcome: outcome)).encoded())
    }

    func receipt(of json: JSONObject, _ receiptState: MessageState) {
        guard let messageID = json["messageID"]?.string.flatMap(MessageID.init),
            let to = json["to"]?.string.flatMap(UserID.init)
        else { return }
        tell(DownMessage.receipt(BellwireReceipt(messageID: messageID, to: to, state: receiptState, time: 1)).encoded())
    }

    func breakConnection() {
        state.withLock(\.events)?(.closed(BellwireTransportError(.lost(isClean: false), "broken")))
    }

    private func tell(_ payload: [UInt8]) {
        state.withLock(\.events)?(.received(payload: payload, isRetained: false))
    }
}
