import SignalingProtocol
import Tokens
import ZegoCallProtocol

extension DeviceID {
    private static let zegoCall = "zegocall"

    /// The device as which a user of `/call/…` acts (docs/decisions/0022): the same on every gateway, and a different
    /// device for each device that tokens name.
    init(zegoCall token: Token) {
        guard let device = token.device?.string else {
            self = DeviceID(Self.zegoCall)!
            return
        }
        self = DeviceID("\(Self.zegoCall).\(device)") ?? DeviceID("\(Self.zegoCall).\(ZegoCall.shortened(device))")!
    }

    var isZegoCall: Bool { string == Self.zegoCall || string.hasPrefix(Self.zegoCall + ".") }
}

extension Bearer {
    var zegoCallDevice: DeviceAddress {
        DeviceAddress(userID: token.user, deviceID: DeviceID(zegoCall: token))
    }
}

/// The requests of ZEGO Call's business-server protocol (docs/migrate/zego-call-server.md).
extension Asked {
    func zegoCall(_ bearer: Bearer, newID: () -> RequestID) throws(Problem) -> Operation {
        if route == .zegoEvents { return .events(bearer, lastEventID: lastEventID) }
        let body = try fields()
        if route == .zegoStart { return try relay(.invite(try zegoInvite(body, bearer)), bearer, .done, newID) }
        try isOwn(body["id"]?.string, bearer, "id")
        let callID = try zegoCallID(body)
        switch route {
        case .zegoCancel:
            let callee = try required(body, "callee_id", "a user id of 1 to 64 bytes", UserID.init)
            return try relay(.cancel(.init(callID: callID, invitees: [callee])), bearer, .cancel, newID)
        case .zegoAccept: return try relay(.accept(.init(callID: callID)), bearer, .accept, newID)
        case .zegoDecline:
            _ = try required(body, "caller_id", "a user id of 1 to 64 bytes", UserID.init)
            return try relay(.reject(.init(callID: callID, reason: try declined(body))), bearer, .done, newID)
        case .zegoEnd: return try relay(.end(.init(callID: callID)), bearer, .done, newID)
        default: return .heartbeat(heartbeat(callID, bearer), callID)
        }
    }

    private func relay(
        _ request: Request.Body, _ bearer: Bearer, _ answer: ZegoAnswer, _ newID: () -> RequestID
    ) throws(Problem) -> Operation {
        let payload = UpMessage.request(Request(id: key ?? newID(), body: request)).encoded()
        return .relay(RelayedRequest(device: bearer.zegoCallDevice, payload: payload, answer: .zegoCall(answer)))
    }

    private func heartbeat(_ callID: CallID, _ bearer: Bearer) -> RelayedRequest {
        RelayedRequest(
            device: bearer.zegoCallDevice, payload: UpMessage.heartbeat(callID).encoded(), answer: .zegoCall(.heartbeat)
        )
    }

    private func zegoInvite(_ body: JSONFields, _ bearer: Bearer) throws(Problem) -> Request.Invite {
        let callID = try zegoCallID(body)
        let call = try zegoCall(body)
        try isOwn(call.caller.id, bearer, "caller.id")
        var invitees: [UserID] = []
        for callee in call.callees {
            guard let user = UserID(callee.id) else { throw .badRequest("callees: an id has 1 to 64 bytes") }
            invitees.append(user)
        }
        let data = call.extendedData
        guard data.utf8.count <= Limits.extendedDataBytes else {
            throw .badRequest(
                "call_id and names: \(data.utf8.count) bytes as JSON, at most \(Limits.extendedDataBytes)"
            )
        }
        return Request.Invite(
            invitees: invitees, callID: callID, mode: .advanced, timeout: ZegoCall.timeout, media: call.kind.media,
            extendedData: data)
    }

    private func zegoCall(_ body: JSONFields) throws(Problem) -> ZegoCall {
        guard let id = body["call_id"]?.string else { throw .badRequest("call_id: expected a string") }
        guard let caller = body["caller"].flatMap(ZegoCall.Party.init) else {
            throw .badRequest("caller: expected an id and a name")
        }
        let callees = body["callees"]?.array?.map(ZegoCall.Party.init)
        guard let callees, !callees.isEmpty, !callees.contains(nil) else {
            throw .badRequest("callees: expected a list of objects with id and name")
        }
        guard let kind = body["type"]?.integer.flatMap(ZegoCall.Kind.init) else {
            throw .badRequest("type: expected 1 (voice) or 2 (video)")
        }
        return ZegoCall(id: id, caller: caller, callees: callees.compactMap(\.self), kind: kind)
    }

    private func zegoCallID(_ body: JSONFields) throws(Problem) -> CallID {
        try required(body, "call_id", "a string that is not empty", ZegoCall.callID)
    }

    private func declined(_ body: JSONFields) throws(Problem) -> String {
        guard let type = body["type"]?.integer.flatMap(ZegoCall.Decline.init(rawValue:)) else {
            throw .badRequest("type: expected 1 (declined) or 2 (busy)")
        }
        return type.reason
    }

    private func isOwn(_ user: String?, _ bearer: Bearer, _ name: String) throws(Problem) {
        guard let user, UserID(user) == bearer.token.user else {
            throw .badRequest("\(name): expected the user of the token")
        }
    }
}
