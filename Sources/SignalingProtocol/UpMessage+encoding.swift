extension UpMessage {
    /// The payload that a device publishes.
    package func encoded() -> [UInt8] {
        JSONWriter.object { writer in
            switch self {
            case .request(let request): request.write(to: &writer)
            case .heartbeat(let callID):
                writer.field("type", "call.heartbeat")
                writer.field("callID", callID.string)
            case .ackCall(let callID, let revision):
                writer.field("type", "ack")
                writer.field("callID", callID.string)
                writer.field("revision", revision)
            case .ackMessage(let messageID):
                writer.field("type", "ack")
                writer.field("messageID", messageID.string)
            case .signal(let signal):
                writer.field("type", "call.signal")
                writer.field("callID", signal.callID.string)
                signal.write(to: &writer)
            }
        }
    }
}

extension Request {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", body.type)
        writer.field("id", id.string)
        writer.field("callID", body.callID?.string)
        body.writeFields(to: &writer)
    }
}

extension Request.Body {
    /// Writes all fields except `type`, `id` and `callID`.
    func writeFields(to writer: inout JSONWriter) {
        switch self {
        case .invite(let invite): invite.write(to: &writer)
        case .cancel(let body):
            if let invitees = body.invitees { writer.users("invitees", invitees) }
            writer.field("extendedData", body.extendedData)
        case .accept(let body): writer.field("extendedData", body.extendedData)
        case .reject(let body):
            writer.field("reason", body.reason)
            writer.field("extendedData", body.extendedData)
        case .add(let body):
            writer.users("invitees", body.invitees)
            writer.field("timeout", body.timeout)
            writer.field("extendedData", body.extendedData)
            body.push?.write(to: &writer)
        case .join(let body): writer.field("extendedData", body.extendedData)
        case .quit(let body): writer.field("extendedData", body.extendedData)
        case .end(let body):
            writer.field("reason", body.reason)
            writer.field("extendedData", body.extendedData)
        case .get, .trace, .media: break
        case .signal(let body): body.write(to: &writer)
        case .report(let body):
            writer.object("milestones") { writer in
                for milestone in body.milestones { writer.field(named: milestone.name, milestone.milliseconds) }
            }
        case .query(let body):
            writer.field("count", body.count)
            writer.field("cursor", body.cursor)
        case .message(let body):
            writer.field("to", body.to.string)
            writer.field("ttl", body.ttl)
            writer.field("messageID", body.messageID?.string)
            writer.field("seq", body.seq)
            writer.field("stream", body.stream)
            writer.field("data", body.data)
        case .userUpdate(let body):
            writer.field("name", body.name)
            writer.field("avatarURL", body.avatarURL)
            writer.field("extendedData", body.extendedData)
        case .userQuery(let body): writer.users("userIDs", body.userIDs)
        case .userBlock(let body): writer.field("userID", body.userID.string)
        case .userSignOut(let device): writer.field("device", device?.string)
        case .pushRegister(let body): body.write(to: &writer)
        case .pushUnregister(let body):
            writer.field("platform", body.platform?.rawValue)
            writer.field("app", body.app?.string)
        case .ringCheck(let body):
            writer.field("device", body.device.string)
            writer.field("invitation", body.invitation)
            if body.isRejected { writer.field("reject", true) }
        case .userBlockList, .userDelete: break
        }
    }
}

extension Request.Signal {
    fileprivate func write(to writer: inout JSONWriter) {
        if let to { writer.users("to", to) }
        writer.field("seq", seq)
        writer.field("stream", stream)
        writer.field("data", data)
    }
}

extension Request.Body {
    /// The value of the field `type` on the wire.
    package var type: String {
        switch self {
        case .invite: "call.invite"
        case .cancel: "call.cancel"
        case .accept: "call.accept"
        case .reject: "call.reject"
        case .add: "call.add"
        case .join: "call.join"
        case .quit: "call.quit"
        case .end: "call.end"
        case .get: "call.get"
        case .signal: "call.signal"
        case .report: "call.report"
        case .trace: "call.trace"
        case .media: "call.media"
        case .query: "call.query"
        case .message: "message.send"
        case .userUpdate: "user.update"
        case .userQuery: "user.query"
        case .userBlock(let body): body.isBlocked ? "user.block" : "user.unblock"
        case .userBlockList: "user.blockList"
        case .userSignOut: "user.signOut"
        case .userDelete: "user.delete"
        case .pushRegister: "push.register"
        case .pushUnregister: "push.unregister"
        case .ringCheck: "call.ringCheck"
        }
    }
}

extension Request.Invite {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.users("invitees", invitees)
        writer.field("mode", mode.rawValue)
        writer.field("timeout", timeout)
        writer.field("media", media)
        writer.field("extendedData", extendedData)
        if notReceivedCheck { writer.field("notReceivedCheck", true) }
        writer.field("notReceivedAfter", notReceivedAfter)
        if joinPolicy != .invited { writer.field("joinPolicy", joinPolicy.rawValue) }
        if !autoEnd { writer.field("autoEnd", false) }
        if ifBusy != .ring { writer.field("ifBusy", ifBusy.rawValue) }
        if glare != .ring { writer.field("glare", glare.rawValue) }
        push?.write(to: &writer)
    }
}

extension Request.Push {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object("push") { writer in
            writer.field("title", title)
            writer.field("content", content)
            writer.field("payload", payload)
            guard let missed else { return }
            writer.object("missed") { writer in
                writer.field("title", missed.title)
                writer.field("content", missed.content)
            }
        }
    }
}

extension JSONWriter {
    mutating func users(_ key: StaticString, _ users: [UserID]) {
        array(key) { writer in
            for user in users { writer.string(user.string) }
        }
    }
}
