/// The refusal of a message on an `up` topic. The service answers by a response when the message has a request id, else
/// by a message of type `error` (docs/protocol.md, section 2).
package struct UpMessageRefusal: Error, Equatable, Sendable {
    package let requestID: RequestID?
    package var error: SignalingError

    package init(requestID: RequestID?, error: SignalingError) {
        self.requestID = requestID
        self.error = error
    }
}

extension UpMessage {
    /// Decodes a message. `maxBytes` is the largest request in bytes. A message beyond `Limits.parsedBytes` is refused
    /// without being parsed.
    package static func decode(
        _ payload: [UInt8], maxBytes: Int = Limits.requestBytes
    ) -> Result<UpMessage, UpMessageRefusal> {
        guard payload.count <= Limits.parsedBytes else { return .failure(tooLarge(payload, maxBytes, id: nil)) }
        let message: ReceivedObject
        do throws(JSONError) {
            guard let object = try ReceivedObject(payload) else {
                return .failure(bad(payload, maxBytes, "the message is not a JSON object"))
            }
            message = object
        } catch {
            return .failure(bad(payload, maxBytes, "the message is not JSON: \(error)"))
        }
        let json = message.json
        let id = json["id"]?.string.flatMap(RequestID.init)
        guard payload.count <= maxBytes else { return .failure(tooLarge(payload, maxBytes, id: id)) }
        do throws(FieldError) {
            return .success(try decode(FieldReader(message), id: id))
        } catch {
            // Acks and heartbeats are not requests, so they get no response, even with an `id`.
            let isRequest = !["ack", "call.heartbeat"].contains(json["type"]?.string)
            return .failure(UpMessageRefusal(requestID: isRequest ? id : nil, error: error.signalingError))
        }
    }

    private static func bad(_ payload: [UInt8], _ maxBytes: Int, _ message: String) -> UpMessageRefusal {
        guard payload.count <= maxBytes else { return tooLarge(payload, maxBytes, id: nil) }
        return UpMessageRefusal(requestID: nil, error: SignalingError(.badRequest, message))
    }

    private static func tooLarge(_ payload: [UInt8], _ maxBytes: Int, id: RequestID?) -> UpMessageRefusal {
        let message = "the message has \(payload.count) bytes; at most \(maxBytes) are allowed"
        return UpMessageRefusal(requestID: id, error: SignalingError(.tooLarge, message))
    }

    private static func decode(_ fields: FieldReader, id: RequestID?) throws(FieldError) -> UpMessage {
        let type = try fields.required("type", fields.text("type", maxBytes: Limits.parsedBytes))
        switch type {
        case "ack":
            if let messageID = try fields.identifier("messageID", MessageID.self) { return .ackMessage(messageID) }
            let callID = try fields.required("callID", fields.identifier("callID", CallID.self))
            let revision = try fields.required("revision", fields.integer("revision", in: 0...Int.max))
            return .ackCall(callID, revision: revision)
        case "call.heartbeat":
            return .heartbeat(try fields.required("callID", fields.identifier("callID", CallID.self)))
        case "call.signal" where fields.isAbsent("id"): return .signal(try .init(fields))
        default:
            guard let id else {
                throw .bad("id", "must be 1 to 64 of A-Z a-z 0-9 _ -")
            }
            guard let body = try Request.Body(type: type, fields) else { throw .unknownType(type) }
            return .request(Request(id: id, body: body))
        }
    }
}

extension Request.Body {
    /// Nil for a type that this version does not serve.
    fileprivate init?(type: String, _ fields: FieldReader) throws(FieldError) {
        switch type {
        case "call.invite": self = .invite(try .init(fields))
        case "call.cancel":
            self = .cancel(
                .init(
                    callID: try fields.callID, invitees: try fields.users("invitees"),
                    extendedData: try fields.extendedData))
        case "call.accept": self = .accept(.init(callID: try fields.callID, extendedData: try fields.extendedData))
        case "call.reject":
            self = .reject(
                .init(
                    callID: try fields.callID, reason: try fields.reason ?? WellKnownReason.declined,
                    extendedData: try fields.extendedData))
        case "call.add":
            self = .add(
                .init(
                    callID: try fields.callID, invitees: try fields.required("invitees", fields.users("invitees")),
                    timeout: try fields.integer("timeout", in: Limits.invitationTimeout),
                    extendedData: try fields.extendedData, push: try fields.push))
        case "call.join": self = .join(.init(callID: try fields.callID, extendedData: try fields.extendedData))
        case "call.quit": self = .quit(.init(callID: try fields.callID, extendedData: try fields.extendedData))
        case "call.end":
            self = .end(
                .init(callID: try fields.callID, reason: try fields.reason, extendedData: try fields.extendedData))
        case "call.get": self = .get(.init(callID: try fields.callID))
        case "call.signal": self = .signal(try .init(fields))
        case "call.report":
            self = .report(.init(callID: try fields.callID, milestones: try fields.milestones))
        case "call.trace": self = .trace(.init(callID: try fields.callID))
        case "call.media": self = .media(.init(callID: try fields.callID))
        case "call.query":
            let count = try fields.integer("count", in: 1...Int.max)
            self = .query(
                .init(
                    count: count.map { min($0, Limits.callsPerPage) },
                    cursor: try fields.text("cursor", maxBytes: Limits.cursorBytes)))
        case "message.send": self = .message(try .init(fields))
        case "user.update":
            self = .userUpdate(
                .init(
                    name: try fields.plainText("name", maxBytes: Limits.userNameBytes),
                    avatarURL: try fields.plainText("avatarURL", maxBytes: Limits.avatarURLBytes),
                    extendedData: try fields.extendedData))
        case "user.query":
            let users = try fields.users("userIDs", atMost: Limits.usersPerQuery)
            self = .userQuery(.init(userIDs: try fields.required("userIDs", users)))
        case "user.block", "user.unblock":
            let user = try fields.required("userID", fields.user("userID"))
            self = .userBlock(.init(userID: user, isBlocked: type == "user.block"))
        case "user.blockList": self = .userBlockList
        case "user.signOut":
            self = .userSignOut(try fields.identifier("device", DeviceID.self))
        case "user.delete": self = .userDelete
        case "push.register": self = .pushRegister(try .init(fields))
        case "push.unregister":
            self = .pushUnregister(
                .init(
                    platform: try fields.choice("platform", PushPlatform.self),
                    app: try fields.identifier("app", AppName.self)))
        case "call.ringCheck":
            self = .ringCheck(
                .init(
                    callID: try fields.callID,
                    device: try fields.required("device", fields.device("device")),
                    invitation: try fields.required("invitation", fields.integer("invitation", in: 1...Int.max)),
                    isRejected: try fields.flag("reject") ?? false))
        default: return nil
        }
    }
}

extension Request.Invite {
    fileprivate init(_ fields: FieldReader) throws(FieldError) {
        self.init(
            invitees: try fields.required("invitees", fields.users("invitees")),
            callID: try fields.identifier("callID", CallID.self),
            mode: try fields.choice("mode", CallMode.self) ?? .common,
            timeout: try fields.integer("timeout", in: Limits.invitationTimeout),
            media: try fields.text("media", maxBytes: Limits.mediaBytes),
            extendedData: try fields.extendedData,
            notReceivedCheck: try fields.flag("notReceivedCheck") ?? false,
            notReceivedAfter: try fields.integer("notReceivedAfter", in: Limits.notReceivedAfter),
            joinPolicy: try fields.choice("joinPolicy", JoinPolicy.self) ?? .invited,
            autoEnd: try fields.flag("autoEnd") ?? true,
            ifBusy: try fields.choice("ifBusy", BusyPolicy.self) ?? .ring,
            glare: try fields.choice("glare", GlarePolicy.self) ?? .ring,
            push: try fields.push)
    }
}

extension Request.Signal {
    fileprivate init(_ fields: FieldReader) throws(FieldError) {
        self.init(
            callID: try fields.callID, to: try fields.users("to", atMost: Limits.signalRecipients),
            seq: try fields.sequenceNumber, stream: try fields.token("stream"), data: try fields.data)
    }
}

extension Request.Message {
    fileprivate init(_ fields: FieldReader) throws(FieldError) {
        self.init(
            to: try fields.required("to", fields.user("to")), data: try fields.data,
            ttl: try fields.integer("ttl", in: Limits.messageTTL),
            messageID: try fields.identifier("messageID", MessageID.self), seq: try fields.sequenceNumber,
            stream: try fields.token("stream"))
    }
}
