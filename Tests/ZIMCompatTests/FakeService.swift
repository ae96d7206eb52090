import BellwireClient
import Dispatch
import SignalingProtocol
import Synchronization

/// A service with a single device: the service welcomes the device, and answers as its test says.
final class FakeService: BellwireTransport {
    private struct State {
        var answer: @Sendable (Request) -> [DownMessage] = { _ in [] }
        var welcomed: [CallSnapshot] = []
        var warning: Int64?
        var refusal: BellwireTransportError?
        var requests: [Request] = []
        var presence: [PresenceMessage] = []
        var tell: (@Sendable (BellwireTransportEvent) -> Void)?
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "fake service")

    /// The requests that were made, each once.
    var requests: [Request] { state.withLock(\.requests) }
    var presence: [PresenceMessage] { state.withLock(\.presence) }

    /// The calls that a welcome lists.
    func welcomes(with calls: [CallSnapshot]) { state.withLock { $0.welcomed = calls } }

    func answers(_ answer: @escaping @Sendable (Request) -> [DownMessage]) { state.withLock { $0.answer = answer } }

    /// The broker says, before the first message of the service, that the token ends at this time.
    func warns(at time: Int64) { state.withLock { $0.warning = time } }

    func refuses(_ refusal: BellwireTransportError) { state.withLock { $0.refusal = refusal } }

    func sends(_ message: DownMessage) {
        queue.async {
            self.state.withLock(\.tell)?(.received(payload: message.encoded(), isRetained: false))
        }
    }

    func breaksConnection() {
        queue.async {
            let tell = self.state.withLock { state in
                defer { state.tell = nil }
                return state.tell
            }
            tell?(.closed(BellwireTransportError(.lost(isClean: false), "cut")))
        }
    }

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        if let refusal = state.withLock(\.refusal) { throw refusal }
        state.withLock { $0.tell = events }
        return FakeConnection(service: self)
    }

    fileprivate func received(_ message: BellwireOutgoingMessage) {
        if message.topic.contains("/presence/") {
            guard case .success(let presence) = PresenceMessage.decode(message.payload) else { return }
            state.withLock { $0.presence.append(presence) }
            guard presence.status == .online else { return }
            let (calls, warning) = state.withLock { ($0.welcomed, $0.warning) }
            if let warning { sends(.tokenWillExpire(at: warning)) }
            let welcome = Welcome(
                session: presence.session, serverTime: 1, heartbeatInterval: 20, heartbeatTimeout: 60, calls: calls)
            return sends(.welcome(welcome))
        }
        guard case .success(.request(let request)) = UpMessage.decode(message.payload) else { return }
        let answer = state.withLock { state in
            if !state.requests.contains(where: { $0.id == request.id }) { state.requests.append(request) }
            return state.answer
        }
        for message in answer(request) { sends(message) }
    }
}

private struct FakeConnection: BellwireTransportConnection {
    let service: FakeService

    func publish(_ message: BellwireOutgoingMessage) { service.received(message) }
    func close() async {}
}

extension DownMessage {
    static func success(_ request: Request, _ call: CallSnapshot, errors: [UserError] = []) -> DownMessage {
        .response(Response(id: request.id, outcome: .success(.init(call: call, time: 7, errors: errors))))
    }

    static func answer(_ request: Request, _ answer: Answer) -> DownMessage {
        .response(Response(id: request.id, outcome: .answer(answer)))
    }

    static func failure(_ request: Request, _ code: ErrorCode) -> DownMessage {
        .response(Response(id: request.id, outcome: .failure(SignalingError(code, "no"))))
    }

    static func event(_ name: EventName, _ call: CallSnapshot) -> DownMessage {
        .event(Event(name: name, revision: call.revision, time: 8, call: call))
    }
}
