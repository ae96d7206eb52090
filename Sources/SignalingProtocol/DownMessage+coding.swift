extension DownMessage {
    /// The bytes that the service publishes.
    public func encoded() -> [UInt8] {
        JSONWriter.object(capacity: 1024) { writer in
            switch self {
            case .response(let response): response.write(to: &writer)
            case .event(let event): event.write(to: &writer)
            case .welcome(let welcome): welcome.write(to: &writer)
            case .error(let error):
                writer.field("type", "error")
                error.write(to: &writer)
            }
        }
    }

    /// Nil for what this version does not know: a client ignores it.
    public static func decode(_ payload: [UInt8]) -> DownMessage? {
        guard case .object(let json)? = try? JSONParser.parse(payload) else { return nil }
        switch json["type"]?.string {
        case "response": return Response(json: json).map(DownMessage.response)
        case "event": return Event(json: json).map(DownMessage.event)
        case "welcome": return Welcome(json: json).map(DownMessage.welcome)
        case "error": return json["error"]?.object.flatMap(SignalingError.init(json:)).map(DownMessage.error)
        default: return nil
        }
    }
}

extension Response {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", "response")
        writer.field("id", id)
        switch outcome {
        case .success(let success):
            writer.field("ok", true)
            writer.field("callID", success.call.callID)
            writer.field("revision", success.call.revision)
            writer.field("time", success.time)
            if success.merged { writer.field("merged", true) }
            if let offline = success.offline { writer.users("offline", offline) }
            if !success.errors.isEmpty {
                writer.array("errors") { writer in
                    for error in success.errors {
                        writer.object { writer in
                            writer.field("userID", error.userID)
                            writer.field("code", error.code.rawValue)
                        }
                    }
                }
            }
            writer.object("call") { success.call.write(to: &$0) }
        case .failure(let error):
            writer.field("ok", false)
            error.write(to: &writer)
        }
    }

    fileprivate init?(json: JSONObject) {
        guard let id = json["id"]?.string.flatMap(RequestID.init), let ok = json["ok"]?.bool else { return nil }
        guard ok else {
            guard let error = json["error"]?.object.flatMap(SignalingError.init(json:)) else { return nil }
            self.init(id: id, outcome: .failure(error))
            return
        }
        guard let call = json["call"]?.object.flatMap(CallSnapshot.init(json:)), let time = json["time"]?.integer else {
            return nil
        }
        let offline = json["offline"]?.array?.compactMap { $0.string.flatMap(UserID.init) }
        let errors = json["errors"]?.array?.compactMap { value -> UserError? in
            guard let user = value.object?["userID"]?.string.flatMap(UserID.init),
                let code = value.object?["code"]?.string
            else { return nil }
            return UserError(userID: user, code: ErrorCode(rawValue: code))
        }
        let success = Success(
            call: call, time: time, offline: offline, errors: errors ?? [], merged: json["merged"]?.bool ?? false)
        self.init(id: id, outcome: .success(success))
    }
}

extension Event {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", "event")
        writer.field("event", name.rawValue)
        writer.field("callID", callID)
        writer.field("revision", revision)
        writer.field("time", time)
        writer.field("actor", actor)
        writer.field("expiresIn", expiresIn)
        if missed { writer.field("missed", true) }
        writer.array("changes") { writer in
            for change in changes { writer.object { change.write(to: &$0) } }
        }
        writer.object("call") { call.write(to: &$0) }
    }

    fileprivate init?(json: JSONObject) {
        guard let name = json["event"]?.string.flatMap(EventName.init), let revision = json["revision"]?.integer,
            let time = json["time"]?.integer, let call = json["call"]?.object.flatMap(CallSnapshot.init(json:))
        else { return nil }
        self.init(
            name: name, revision: Int(revision), time: time, actor: json["actor"]?.string.flatMap(UserID.init),
            changes: json["changes"]?.array?.compactMap { $0.object.flatMap(MemberChange.init(json:)) } ?? [],
            call: call, expiresIn: json["expiresIn"]?.integer.map(Int.init), missed: json["missed"]?.bool ?? false)
    }
}

extension Welcome {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", "welcome")
        writer.field("session", session)
        writer.field("serverTime", serverTime)
        writer.field("heartbeatInterval", heartbeatInterval)
        writer.field("heartbeatTimeout", heartbeatTimeout)
        writer.field("presenceLease", presenceLease)
        if omittedCalls > 0 { writer.field("omittedCalls", omittedCalls) }
        writer.array("calls") { writer in
            for call in calls { writer.object { call.write(to: &$0) } }
        }
    }

    fileprivate init?(json: JSONObject) {
        guard let session = json["session"]?.string, let serverTime = json["serverTime"]?.integer,
            let interval = json["heartbeatInterval"]?.integer, let timeout = json["heartbeatTimeout"]?.integer
        else { return nil }
        self.init(
            session: session, serverTime: serverTime, heartbeatInterval: Int(interval), heartbeatTimeout: Int(timeout),
            calls: json["calls"]?.array?.compactMap { $0.object.flatMap(CallSnapshot.init(json:)) } ?? [],
            omittedCalls: Int(json["omittedCalls"]?.integer ?? 0),
            presenceLease: json["presenceLease"]?.integer.map(Int.init))
    }
}
