import CallStore
import HTTPServing
import SignalingProtocol

/// The operation of an HTTP request, after path and body were parsed.
enum Operation {
    /// A request of the protocol, which a coordinator decides.
    case relay(RelayedRequest)
    /// The cases that only read.
    case call(CallID)
    case trace(CallID)
    /// - Parameter isAdmin: whether an administrator asks, who also learns whether the user is disabled.
    case devices(UserID, isAdmin: Bool)
    case token(UserID, DeviceID?, milliseconds: Int64)
    case ring(RingQuestion)
    /// A heartbeat, passed on if the user is still in the call.
    case heartbeat(RelayedRequest, CallID)
    /// An act of an administrator, which is written into the audit log before it is done.
    case act(AdminAct, AuditEntry)
    /// A part of the devices that are online.
    case online(after: String?, count: Int)
    /// A part of the live calls.
    case liveCalls(after: String?, count: Int)
    /// The webhook endpoints.
    case webhooks
    /// A part of an endpoint's dead letters.
    case deadLetters(EndpointName, after: String?, count: Int)
    /// A part of the audit log.
    case audit(after: String?, count: Int)
    /// The stream of the user's events from now on.
    case events(Bearer, lastEventID: String?)
}

/// A request of the protocol on behalf of a device.
struct RelayedRequest {
    /// The way in which the service's response becomes an HTTP response.
    enum Answer {
        /// 201 with the call's location; 200 when the call was made by an earlier request.
        case created
        case fields
        /// The entry of a user, from a response that lists only this user.
        case user
        /// 202 with the message's id.
        case message
        /// 204.
        case nothing
        /// The response to a woken device.
        case ring
        /// The service sends no response to such a request. The HTTP response is 204 when the broker has accepted the
        /// request.
        case unanswered
        /// `{"code","message"}`.
        case zegoCall(ZegoAnswer)

        /// Whether the request has no response, so that the broker's acknowledgement counts.
        var isUnanswered: Bool {
            switch self {
            case .unanswered, .zegoCall(.heartbeat): true
            default: false
            }
        }

        /// The HTTP response when the broker has accepted the request.
        var taken: HTTPResponse {
            if case .zegoCall = self { return .zegoCallDone }
            return HTTPResponse(204)
        }
    }

    let device: DeviceAddress
    let payload: [UInt8]
    let answer: Answer
}

/// An HTTP request with its decoded path.
struct Asked {
    let route: Route
    let parameters: [String: String]
    let query: [(name: String, value: String)]
    let body: [UInt8]
    /// The header `Idempotency-Key`.
    let key: RequestID?
    /// The user who sent the request with the user's own token.
    var user: Bearer?
    /// The header `Last-Event-ID`.
    var lastEventID: String?
    /// The administrator who sent the request.
    var admin: Bearer?

    /// - Parameter newID: makes the id of a request without an `Idempotency-Key`.
    func operation(newID: () -> RequestID) throws(Problem) -> Operation {
        if let user { return try zegoCall(user, newID: newID) }
        switch route {
        case .call: return .call(try callID)
        case .trace, .adminCall: return .trace(try callID)
        case .devices, .adminDevices: return .devices(try userID, isAdmin: route.isAdmin)
        case .token:
            let body = try fields()
            let (user, device) = (
                try required(body, "userID", "a user id of 1 to 64 bytes", UserID.init), try optionalDevice(body)
            )
            guard device != .server else { throw .badRequest("device: the device id server is for backends") }
            return .token(user, device, milliseconds: try life(body))
        case .adminEnd, .adminSignOut, .adminDisable, .adminEnable, .adminLogLevel, .adminReplay:
            return try adminAct(newID)
        case .adminLiveCalls:
            return .liveCalls(after: cursor, count: max(1, min(try count() ?? 20, AdminBounds.page)))
        case .adminWebhooks: return .webhooks
        case .adminDeadLetters:
            return .deadLetters(
                try endpoint, after: cursor, count: max(1, min(try count() ?? 20, AdminBounds.page)))
        case .adminOnline: return .online(after: cursor, count: max(1, min(try count() ?? 20, AdminBounds.page)))
        case .adminAudit: return .audit(after: cursor, count: max(1, min(try count() ?? 20, AdminBounds.page)))
        case .ringCheck: return .ring(try ring(isRejected: false))
        case .ringReject: return .ring(try ring(isRejected: true))
        case .heartbeat:
            let body = try fields()
            return .relay(
                RelayedRequest(
                    device: try device(body, "userID"), payload: UpMessage.heartbeat(try callID).encoded(),
                    answer: .unanswered))
        default: return .relay(try relayed(newID))
        }
    }

    // MARK: Requests of the protocol

    private func relayed(_ newID: () -> RequestID) throws(Problem) -> RelayedRequest {
        let id = key ?? newID()
        switch route {
        case .invite: return try requestOnCall("call.invite", id, of: "inviter", .created)
        case .accept: return try requestOnCall("call.accept", id)
        case .reject: return try requestOnCall("call.reject", id)
        case .cancel: return try requestOnCall("call.cancel", id)
        case .add: return try requestOnCall("call.add", id)
        case .join: return try requestOnCall("call.join", id)
        case .quit: return try requestOnCall("call.quit", id)
        case .end: return try requestOnCall("call.end", id)
        case .media: return try requestOnCall("call.media", id)
        case .history, .adminCalls: return try history(id)
        case .message: return try message(id)
        case .updateUser:
            let (device, body) = (DeviceAddress(userID: try userID, deviceID: .server), try fields())
            return RelayedRequest(
                device: device, payload: payload("user.update", id, passing: body, but: []), answer: .fields)
        case .user:
            let user = try userID
            return RelayedRequest(
                device: DeviceAddress(userID: user, deviceID: .server),
                payload: payload("user.query", id) { writer in
                    writer.array("userIDs") { $0.string(user.string) }
                }, answer: .user)
        case .deleteUser:
            return RelayedRequest(
                device: DeviceAddress(userID: try userID, deviceID: .server), payload: payload("user.delete", id),
                answer: .nothing)
        case .signOut:
            guard let device = DeviceID(parameters["device"]!) else {
                throw .badRequest("device: expected 1 to 64 of A-Z a-z 0-9 . _ ~ -")
            }
            return RelayedRequest(
                device: DeviceAddress(userID: try userID, deviceID: .server),
                payload: payload("user.signOut", id) { $0.field("device", device.string) }, answer: .nothing)
        case .call, .trace, .heartbeat, .devices, .token, .ringCheck, .ringReject, .ringCheckPreflight,
            .ringRejectPreflight, .zegoStart, .zegoCancel, .zegoAccept, .zegoDecline, .zegoEnd, .zegoHeartbeat,
            .zegoEvents, .adminOnline, .adminLiveCalls, .adminDevices, .adminCall, .adminEnd, .adminSignOut,
            .adminDisable, .adminEnable, .adminLogLevel, .adminWebhooks, .adminDeadLetters, .adminReplay, .adminAudit,
            .description,
            .healthy, .ready, .metrics:
            preconditionFailure("served elsewhere")
        }
    }

    /// Returns the request to the coordinators that this HTTP request stands for. `RequestHandler.serve` hands this
    /// `RelayedRequest` to `Relay`, whose thread calls `OpenRequests.take`; `OpenRequests.message` makes the MQTT
    /// message.
    private func requestOnCall(
        _ type: String, _ id: RequestID, of user: String = "userID", _ answer: RelayedRequest.Answer = .fields
    ) throws(Problem) -> RelayedRequest {
        let body = try fields()
        let device = try device(body, user)
        // An invite may name its call in the body; all other requests name their call in the path.
        let callID = route == .invite ? nil : try callID
        return RelayedRequest(
            device: device,
            payload: payload(type, id, passing: body, but: [user, "device"] + (callID == nil ? [] : ["callID"])) {
                $0.field("callID", callID?.string)
            }, answer: answer)
    }

    private func history(_ id: RequestID) throws(Problem) -> RelayedRequest {
        let count = try count()
        let cursor = parameter("cursor")
        return RelayedRequest(
            device: DeviceAddress(userID: try userID, deviceID: .server),
            payload: payload("call.query", id) { writer in
                writer.field("count", count)
                writer.field("cursor", cursor)
            }, answer: .fields)
    }

    /// The `cursor` of the query; nil for the first page.
    private var cursor: String? { parameter("cursor").flatMap { $0 == Answer.lastCursor ? nil : $0 } }

    /// Returns the `count` of the query; nil when the query has none.
    private func count() throws(Problem) -> Int? {
        guard let text = parameter("count") else { return nil }
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            throw .badRequest("count: expected a whole number")
        }
        // A number too large for `Int` asks for as many entries as possible.
        return Int(text) ?? .max
    }

    private func message(_ id: RequestID) throws(Problem) -> RelayedRequest {
        let (user, body) = (try userID, try fields())
        return RelayedRequest(
            device: try device(body, "from"),
            payload: payload("message.send", id, passing: body, but: ["from", "device", "to"]) {
                $0.field("to", user.string)
            }, answer: .message)
    }

    /// Returns a request with the body's fields byte for byte, except the fields that the gateway sets itself.
    func payload(
        _ type: String, _ id: RequestID, passing body: JSONFields? = nil, but excluded: [String] = [],
        _ more: (inout JSONWriter) -> Void = { _ in }
    ) -> [UInt8] {
        JSONWriter.object(capacity: 256 + self.body.count) { writer in
            writer.field("type", type)
            writer.field("id", id.string)
            body?.write(to: &writer, but: Set(excluded + ["type", "id"]))
            more(&writer)
        }
    }

    /// Missing or invalid parameters are refused like a wrong key.
    private func ring(isRejected: Bool) throws(Problem) -> RingQuestion {
        guard let callID = parameters["callID"].flatMap(CallID.init), let user = parameter("user").flatMap(UserID.init),
            let device = parameter("device").flatMap(DeviceID.init), let key = parameter("key")
        else { throw .wrongRingKey }
        return RingQuestion(
            callID: callID, device: DeviceAddress(userID: user, deviceID: device), key: key, isRejected: isRejected)
    }

    // MARK: Path, query and body

    var callID: CallID {
        get throws(Problem) {
            // No call has an invalid id.
            guard let id = CallID(parameters["callID"]!) else { throw Problem(.init(.callNotFound, "no such call")) }
            return id
        }
    }

    var userID: UserID {
        get throws(Problem) {
            guard let user = UserID(parameters["userID"]!) else {
                throw .badRequest("userID: expected 1 to 64 bytes of UTF-8")
            }
            return user
        }
    }

    /// Returns the first value with this name.
    private func parameter(_ name: String) -> String? { query.first { $0.name == name }?.value }

    func fields() throws(Problem) -> JSONFields {
        let found: JSONFields?
        do throws(JSONError) {
            found = try JSONFields(parsing: body)
        } catch {
            throw .badRequest("the body is not JSON: \(error)")
        }
        guard let found else { throw .badRequest("the body: expected a JSON object") }
        return found
    }

    /// Returns the acting device: the backend's own device where the body names no device.
    private func device(_ body: JSONFields, _ user: String) throws(Problem) -> DeviceAddress {
        DeviceAddress(
            userID: try required(body, user, "a user id of 1 to 64 bytes", UserID.init),
            deviceID: try optionalDevice(body) ?? .server)
    }

    func optionalDevice(_ body: JSONFields) throws(Problem) -> DeviceID? {
        guard let value = body["device"] else { return nil }
        guard let device = value.string.flatMap(DeviceID.init) else {
            throw .badRequest("device: expected 1 to 64 of A-Z a-z 0-9 . _ ~ -")
        }
        return device
    }

    func required<Value>(
        _ body: JSONFields, _ name: String, _ expected: String, _ parse: (String) -> Value?
    ) throws(Problem) -> Value {
        guard let value = body[name]?.string.flatMap(parse) else { throw .badRequest("\(name): expected \(expected)") }
        return value
    }

    /// Returns the `ttl` of the body in milliseconds; the body has seconds.
    private func life(_ body: JSONFields) throws(Problem) -> Int64 {
        guard let value = body["ttl"] else { return 3_600_000 }
        guard let seconds = value.integer, (1...86_400).contains(seconds) else {
            throw .badRequest("ttl: expected whole seconds from 1 to 86400")
        }
        return seconds * 1_000
    }
}
