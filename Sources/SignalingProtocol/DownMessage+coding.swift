extension DownMessage {
    /// The payload that the service publishes.
    package func encoded() -> [UInt8] {
        JSONWriter.object(capacity: 1024) { writer in
            switch self {
            case .response(let response): response.write(to: &writer)
            case .event(let event): event.write(to: &writer)
            case .welcome(let welcome): welcome.write(to: &writer)
            case .error(let error):
                writer.field("type", "error")
                error.write(to: &writer)
            case .signal(let signal): signal.write(to: &writer)
            case .message(let message): message.write(to: &writer)
            case .receipt(let receipt): receipt.write(to: &writer)
            case .tokenWillExpire(let expiresAt):
                writer.field("type", "tokenWillExpire")
                writer.field("expiresAt", expiresAt)
            }
        }
    }

    /// Nil for a message that this version does not know; a client ignores such a message.
    package static func decode(_ payload: [UInt8]) -> DownMessage? {
        guard let message = try? ReceivedObject(payload) else { return nil }
        let json = message.json
        switch json["type"]?.string {
        case "response": return Response(json: json).map(DownMessage.response)
        case "event": return Event(json: json).map(DownMessage.event)
        case "welcome": return Welcome(json: json).map(DownMessage.welcome)
        case "error": return json["error"]?.object.flatMap(SignalingError.init(json:)).map(DownMessage.error)
        case "signal": return BellwireSignal(message).map(DownMessage.signal)
        case "message": return BellwireIncomingMessage(message).map(DownMessage.message)
        case "receipt": return BellwireReceipt(json: json).map(DownMessage.receipt)
        case "tokenWillExpire": return json["expiresAt"]?.integer.map(DownMessage.tokenWillExpire)
        default: return nil
        }
    }
}

extension Response {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", "response")
        writer.field("id", id.string)
        switch outcome {
        case .success(let success):
            writer.field("ok", true)
            writer.field("callID", success.call.callID.string)
            writer.field("revision", success.call.revision)
            writer.field("time", success.time)
            if success.merged { writer.field("merged", true) }
            if success.repeated { writer.field("repeated", true) }
            if let offline = success.offline { writer.users("offline", offline) }
            writer.errors(success.errors)
            if !success.reports.isEmpty {
                writer.array("reports") { writer in
                    for report in success.reports { writer.object { report.write(to: &$0) } }
                }
            }
            success.timeline?.write(to: &writer, since: success.call.createdAt)
            if let session = success.mediaSession { writer.object("mediaSession") { session.write(to: &$0) } }
            writer.object("call") { success.call.write(to: &$0) }
        case .answer(let answer):
            writer.field("ok", true)
            answer.write(to: &writer)
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
            guard let answer = Answer(json: json) else { return nil }
            self.init(id: id, outcome: .answer(answer))
            return
        }
        let offline = json["offline"]?.array?.compactMap { $0.string.flatMap(UserID.init) }
        let success = Success(
            call: call, time: time, offline: offline, errors: UserError.list(json),
            merged: json["merged"]?.bool ?? false, repeated: json["repeated"]?.bool ?? false,
            reports: json["reports"]?.array?.compactMap { $0.object.flatMap(DeviceReport.init(json:)) } ?? [],
            timeline: Timeline(json: json),
            mediaSession: json["mediaSession"]?.object.flatMap(BellwireMediaSession.init(json:)))
        self.init(id: id, outcome: .success(success))
    }
}

extension UserError {
    /// Reads the `errors` of a response.
    static func list(_ json: JSONObject) -> [UserError] {
        (json["errors"]?.array ?? []).compactMap { value in
            guard let user = value.object?["userID"]?.string.flatMap(UserID.init),
                let code = value.object?["code"]?.string
            else { return nil }
            return UserError(userID: user, code: ErrorCode(rawValue: code))
        }
    }
}

extension JSONWriter {
    /// Writes the `errors` of a response; writes no field when the list is empty.
    mutating func errors(_ errors: [UserError]) {
        guard !errors.isEmpty else { return }
        array("errors") { writer in
            for error in errors {
                writer.object { writer in
                    writer.field("userID", error.userID.string)
                    writer.field("code", error.code.rawValue)
                }
            }
        }
    }
}

extension Event {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("type", "event")
        writer.field("event", name.rawValue)
        writer.field("callID", callID.string)
        writer.field("revision", revision)
        writer.field("time", time)
        writer.field("actor", actor?.string)
        writer.field("expiresIn", expiresIn)
        if missed { writer.field("missed", true) }
        if omitsExtendedData { writer.field("extendedDataOmitted", true) }
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
            call: call, expiresIn: json["expiresIn"]?.integer.map(Int.init), missed: json["missed"]?.bool ?? false,
            omitsExtendedData: json["extendedDataOmitted"]?.bool ?? false)
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
        writer.field("tokenExpiresAt", tokenExpiresAt)
        if !iceServers.isEmpty {
            writer.array("iceServers") { writer in
                for server in iceServers { writer.object { server.write(to: &$0) } }
            }
        }
        if omittedCalls > 0 { writer.field("omittedCalls", omittedCalls) }
        if !mediaSessions.isEmpty {
            writer.array("mediaSessions") { writer in
                for session in mediaSessions { writer.object { session.write(to: &$0) } }
            }
        }
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
            omittedCalls: max(0, Int(json["omittedCalls"]?.integer ?? 0)),
            presenceLease: json["presenceLease"]?.integer.map(Int.init),
            tokenExpiresAt: json["tokenExpiresAt"]?.integer,
            iceServers: json["iceServers"]?.array?.compactMap { $0.object.flatMap(BellwireIceServer.init(json:)) }
                ?? [],
            mediaSessions: json["mediaSessions"]?.array?.compactMap { $0.object.flatMap(CallMediaSession.init(json:)) }
                ?? [])
    }
}

extension BellwireIceServer {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.array("urls") { writer in
            for url in urls { writer.string(url) }
        }
        writer.field("username", username)
        writer.field("credential", credential)
    }

    fileprivate init?(json: JSONObject) {
        let urls = json["urls"]?.array?.compactMap(\.string) ?? []
        guard !urls.isEmpty, let username = json["username"]?.string, let credential = json["credential"]?.string
        else { return nil }
        self.init(urls: urls, username: username, credential: credential)
    }
}
