import CallCore
import CallStore
import SignalingProtocol
import Tokens

enum AdminBounds {
    /// The bound of connections to the listener of `--admin-http`: administrators are few.
    static let connections = 64
    /// The number of entries in a page of the audit log.
    static let page = 100
    /// The length of a reason, in bytes, as in `call.end`.
    static let reason = 256
    /// The number of endpoints in the list of endpoints.
    static let endpoints = 100
    /// The bound on dead letters that one request sends again, and that the store handles in one step. Between two
    /// steps the store serves other requests.
    static let replayed = 1_000
    static let replayedInOneStep = 64
    /// The number of dead letters among which one is searched: as many as an endpoint keeps.
    static let searched = 100_000
    /// The bytes of an endpoint's events and dead letters beyond which the letters are not read: stores read all
    /// letters at a time.
    static let letterBytes = 64 << 20
    /// The length of a webhook id, in bytes (`WebhookEvent.id`).
    static let webhookID = 256
    static let levels = ["debug", "info", "warning", "error"]
}

/// An act of an administrator: a request that a coordinator decides, made on behalf of a user.
enum AdminAct: Sendable {
    /// The call's state, which the store has, says whose request ends the call.
    case end(CallID, reason: String?, RequestID)
    case signOut(RelayedRequest)
    /// The request signs the user out on all devices.
    case disable(UserID, RelayedRequest)
    case enable(UserID)
    /// `debug`, `info`, `warning` or `error`.
    case logLevel(String)
    /// Dead letters are sent again: all, one, or those of a time and later.
    case replay(EndpointName, webhookID: String?, since: Milliseconds)

    /// Returns the request that ends a live call for all: of an advanced call, `call.end` by a member who is in the
    /// call; else `call.cancel` by an inviter of members who are pending. Nil when nobody is in the call or pending.
    static func request(toEnd call: CallSnapshot, _ reason: String?, _ id: RequestID) -> RelayedRequest? {
        let present = call.mode == .advanced ? call.members.first { $0.state == .accepted }?.userID : nil
        let pending = call.members.first { $0.state.isPending }
        guard let user = present ?? pending.map({ $0.invitedBy ?? call.inviter }) else { return nil }
        let payload = JSONWriter.object { writer in
            writer.field("type", present == nil ? "call.cancel" : "call.end")
            writer.field("id", id.string)
            writer.field("callID", call.callID.string)
            if present != nil { writer.field("reason", reason) }
        }
        return RelayedRequest(
            device: DeviceAddress(userID: user, deviceID: .server), payload: payload, answer: .fields)
    }
}

extension Asked {
    /// Returns the act of an administrator. The body may be empty.
    func adminAct(_ newID: () -> RequestID) throws(Problem) -> Operation {
        let actor = admin?.token.user.string ?? ""
        let id = key ?? newID()
        let fields = body.isEmpty ? nil : try self.fields()
        func entry(_ act: AuditEntry.Act) -> AuditEntry {
            AuditEntry(time: 0, id: newID().string, actor: actor, act: act)
        }
        switch route {
        case .adminSignOut:
            let (user, device) = (
                try userID, try fields.map { body throws(Problem) in try optionalDevice(body) } ?? nil
            )
            var entry = entry(.signOut)
            (entry.userID, entry.device) = (user, device)
            return .act(.signOut(signOut(user, device, id)), entry)
        case .adminLogLevel:
            let level = try required(try self.fields(), "level", AdminBounds.levels.joined(separator: ", ")) {
                AdminBounds.levels.contains($0) ? $0 : nil
            }
            var entry = entry(.logLevel)
            entry.level = level
            return .act(.logLevel(level), entry)
        case .adminReplay:
            let endpoint = try endpoint
            var entry = entry(.replay)
            entry.endpoint = endpoint
            (entry.webhookID, entry.since) =
                try fields.map { body throws(Problem) in
                    (try webhookID(body), try since(body))
                } ?? (nil, nil)
            return .act(.replay(endpoint, webhookID: entry.webhookID, since: entry.since ?? 0), entry)
        case .adminDisable, .adminEnable:
            let user = try userID
            var entry = entry(route == .adminDisable ? .disable : .enable)
            entry.userID = user
            return .act(route == .adminDisable ? .disable(user, signOut(user, nil, id)) : .enable(user), entry)
        default:
            let callID = try callID
            let reason = fields?["reason"]
            guard reason == nil || (reason?.string?.utf8.count ?? .max) <= AdminBounds.reason else {
                throw .badRequest("reason: expected at most \(AdminBounds.reason) bytes")
            }
            var entry = entry(.end)
            (entry.callID, entry.reason) = (callID, reason?.string)
            return .act(.end(callID, reason: reason?.string, id), entry)
        }
    }

    /// The endpoint of the path. No endpoint has an invalid name.
    var endpoint: EndpointName {
        get throws(Problem) {
            guard let endpoint = EndpointName(parameters["name"]!) else { throw .unknownEndpoint }
            return endpoint
        }
    }

    private func webhookID(_ body: JSONFields) throws(Problem) -> String? {
        guard let value = body["id"] else { return nil }
        guard let text = value.string, (1...AdminBounds.webhookID).contains(text.utf8.count) else {
            throw .badRequest("id: expected 1 to \(AdminBounds.webhookID) bytes")
        }
        return text
    }

    private func since(_ body: JSONFields) throws(Problem) -> Milliseconds? {
        guard let value = body["since"] else { return nil }
        guard let time = value.integer, time >= 0 else {
            throw .badRequest("since: expected milliseconds since 1970")
        }
        return time
    }

    private func signOut(_ user: UserID, _ device: DeviceID?, _ id: RequestID) -> RelayedRequest {
        RelayedRequest(
            device: DeviceAddress(userID: user, deviceID: .server),
            payload: payload("user.signOut", id) { $0.field("device", device?.string) }, answer: .nothing)
    }
}
