import CallCore
import Coordinator
import SignalingProtocol

/// A device as the contract describes devices. The phone keeps the highest revision of each call that it has had in an
/// event or a response, and acks every event, also an event that the phone ignores.
final class Phone {
    let address: DeviceAddress
    unowned let world: World
    /// The present session; nil while the phone publishes no presence.
    private(set) var session: String?
    private var sessions = 0
    var acks: Bool
    /// The phone is connected to the broker: published messages reach the phone.
    var isConnected = true
    /// The events that the phone did not ignore.
    private(set) var events: [Event] = []
    private(set) var responses: [Response] = []
    private(set) var welcomes: [Welcome] = []
    private(set) var signals: [BellwireSignal] = []
    /// Each message once, as devices show messages.
    private(set) var messages: [BellwireIncomingMessage] = []
    /// All receipts that came, also repeated receipts.
    private(set) var receipts: [BellwireReceipt] = []
    /// The newest snapshot of each call that the phone knows.
    private(set) var calls: [CallID: CallSnapshot] = [:]

    init(_ name: String, in world: World, acks: Bool) {
        let parts = name.split(separator: "/")
        address = DeviceAddress(userID: UserID(String(parts[0]))!, deviceID: DeviceID(String(parts[1]))!)
        self.world = world
        self.acks = acks
    }

    var user: UserID { address.userID }
    var names: [EventName] { events.map(\.name) }

    func listens(to topic: String) -> Bool {
        isConnected && (topic == Topics.encode(user) || topic == "\(Topics.encode(user))/\(address.deviceID)")
    }

    /// Takes a message; returns the acks that the phone sends for the message.
    func receive(_ published: Published) -> [InboundMessage] {
        switch published.message {
        case .welcome(let welcome): welcomes.append(welcome)
        case .error, .tokenWillExpire: break
        case .response(let response):
            responses.append(response)
            if case .success(let success) = response.outcome { learn(success.call) }
        case .signal(let signal): signals.append(signal)
        case .receipt(let receipt): receipts.append(receipt)
        case .message(let message):
            if !messages.contains(where: { $0.messageID == message.messageID }) { messages.append(message) }
            if acks { return [up(.ackMessage(message.messageID))] }
        case .event(let event):
            if learn(event.call) { events.append(event) }
            if acks { return [up(.ackCall(event.callID, revision: event.revision))] }
        }
        return []
    }

    @discardableResult
    private func learn(_ call: CallSnapshot) -> Bool {
        guard call.revision > calls[call.callID]?.revision ?? 0 else { return false }
        calls[call.callID] = call
        return true
    }

    // MARK: Messages to the service

    func up(_ message: UpMessage, correlationData: [UInt8]? = nil, responseTopic: String? = nil) -> InboundMessage {
        InboundMessage(
            topic: world.settings.topics.up(address), payload: message.encoded(), correlationData: correlationData,
            responseTopic: responseTopic)
    }

    func up(_ body: Request.Body, id: RequestID? = nil) -> InboundMessage {
        up(.request(Request(id: id ?? world.nextRequestID(), body: body)))
    }

    func presence(_ status: PresenceMessage.Status, session: String) -> InboundMessage {
        InboundMessage(
            topic: world.settings.topics.presence(address),
            payload: PresenceMessage(status, session: session).encoded())
    }

    /// Sends a request and returns its single outcome.
    @discardableResult
    func request(_ body: Request.Body, id: RequestID? = nil) -> Response.Outcome? {
        let id = id ?? world.nextRequestID()
        let before = world.published.count
        world.send([up(body, id: id)])
        let own = world.published[before...].filter {
            $0.response?.id == id && $0.topic == "\(Topics.encode(user))/\(address.deviceID)"
        }
        precondition(own.count <= 1, "a request has one outcome")
        return own.first?.response?.outcome
    }

    /// Sends an invite and returns its outcome.
    @discardableResult
    func invite(
        _ invitees: String..., callID: String = "c", id: RequestID? = nil, mode: CallMode = .common,
        change: (inout Request.Invite) -> Void = { _ in }
    ) -> Response.Outcome? {
        var invite = Request.Invite(invitees: invitees.map { UserID($0)! }, callID: CallID(callID)!, mode: mode)
        change(&invite)
        return request(.invite(invite), id: id)
    }

    @discardableResult
    func accept(_ callID: String = "c", id: RequestID? = nil) -> Response.Outcome? {
        request(.accept(.init(callID: CallID(callID)!)), id: id)
    }

    @discardableResult
    func reject(_ callID: String = "c", reason: String = "declined") -> Response.Outcome? {
        request(.reject(.init(callID: CallID(callID)!, reason: reason)))
    }

    @discardableResult
    func cancel(_ callID: String = "c", id: RequestID? = nil, invitees: [String]? = nil) -> Response.Outcome? {
        request(.cancel(.init(callID: CallID(callID)!, invitees: invitees?.map { UserID($0)! })), id: id)
    }

    @discardableResult
    func add(_ users: String..., callID: String = "c") -> Response.Outcome? {
        request(.add(.init(callID: CallID(callID)!, invitees: users.map { UserID($0)! })))
    }

    @discardableResult
    func join(_ callID: String = "c") -> Response.Outcome? { request(.join(.init(callID: CallID(callID)!))) }

    @discardableResult
    func quit(_ callID: String = "c") -> Response.Outcome? { request(.quit(.init(callID: CallID(callID)!))) }

    @discardableResult
    func end(_ callID: String = "c") -> Response.Outcome? { request(.end(.init(callID: CallID(callID)!))) }

    @discardableResult
    func get(_ callID: String = "c") -> Response.Outcome? { request(.get(.init(callID: CallID(callID)!))) }

    func ack(_ revision: Int, _ callID: String = "c") {
        world.send([up(.ackCall(CallID(callID)!, revision: revision))])
    }

    func heartbeat(_ callID: String = "c") { world.send([up(.heartbeat(CallID(callID)!))]) }

    // MARK: Presence

    /// Connects with a new session; the device begins at revision 0 of every call.
    func comeOnline(as session: String? = nil) {
        sessions += 1
        self.session = session ?? "s\(sessions)"
        isConnected = true
        events = []
        calls = [:]
        world.send([presence(.online, session: self.session!)])
    }

    func republishPresence() { world.send([presence(.online, session: session!)]) }

    /// The connection breaks: the broker publishes the will.
    func lose() {
        isConnected = false
        world.send([presence(.offline(.lost), session: session!)])
    }

    func logOut() {
        isConnected = false
        world.send([presence(.offline(.logout), session: session!)])
    }

    /// The connection breaks, and the service is not told.
    func vanish() { isConnected = false }
}

extension Response.Outcome {
    var success: Response.Success? { if case .success(let success) = self { success } else { nil } }
    var error: SignalingError? { if case .failure(let error) = self { error } else { nil } }
    var code: ErrorCode? { error?.code }
    var call: CallSnapshot? { success?.call }
}

extension CallSnapshot {
    func state(of user: String) -> MemberState? { member(UserID(user)!)?.state }
}

func userIDs(_ names: String...) -> [UserID] { names.map { UserID($0)! } }

let callID = CallID("c")!
