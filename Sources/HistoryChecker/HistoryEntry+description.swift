import SignalingProtocol

/// The text of an entry, as a line of a violation.
extension HistoryEntry: CustomStringConvertible {
    package var description: String { "\(clock(at))  \(content)" }
}

extension HistoryEntry.Content: CustomStringConvertible {
    package var description: String {
        switch self {
        case .began(let coordinators): "coordinators \(coordinators.joined(separator: ", "))"
        case .connected(let device, let session): "\(device) is connected, session \(session)"
        case .disconnected(let device): "\(device) is disconnected"
        case .presented(let device, let presence): "\(device) says \(presence.status), session \(presence.session)"
        case .sent(let device, let message): "\(device) sends \(message.story)"
        case .received(let device, let message): "\(device) receives \(message.story)"
        case .lost(let device, .up): "a message of \(device) is lost"
        case .lost(let device, .down): "a message to \(device) is lost"
        case .faultBegan(let target, let fault): "\(target) is \(fault.rawValue)"
        case .faultEnded(let target): "\(target) serves again"
        case .storeWentBack(let since): "the store has forgotten what was written since \(clock(since))"
        case .stalled(let since): "the machine stood still since \(clock(since))"
        case .settled: "all is settled"
        }
    }
}

extension UpMessage {
    var story: String {
        switch self {
        case .request(let request): "\(request.body.story) (request \(request.id))"
        case .heartbeat(let callID): "heartbeat of \(callID)"
        case .ackCall(let callID, let revision): "ack of \(callID) revision \(revision)"
        case .ackMessage(let id): "ack of message \(id)"
        case .signal(let signal): "signal in \(signal.callID)"
        }
    }
}

extension Request.Body {
    var story: String {
        switch self {
        case .invite(let body):
            "invite \(body.callID?.string ?? "") to \(body.invitees.story), \(body.mode.rawValue)"
                + (body.glare == .merge ? ", merge" : "")
        case .cancel(let body): "cancel \(body.callID) \(body.invitees?.story ?? "")"
        case .accept(let body): "accept \(body.callID)"
        case .reject(let body): "reject \(body.callID), \(body.reason)"
        case .add(let body): "add \(body.callID) \(body.invitees.story)"
        case .join(let body): "join \(body.callID)"
        case .quit(let body): "quit \(body.callID)"
        case .end(let body): "end \(body.callID)"
        case .get(let body): "get \(body.callID)"
        case .signal(let body): "signal in \(body.callID)"
        case .report(let body): "report on \(body.callID)"
        case .trace(let body): "trace \(body.callID)"
        case .media(let body): "media \(body.callID)"
        case .query: "query"
        case .message(let body): "message \(body.messageID?.string ?? "") to \(body.to)"
        case .userUpdate: "user update"
        case .userQuery: "user query"
        case .userBlock(let body): "\(body.isBlocked ? "blocks" : "unblocks") \(body.userID)"
        case .userBlockList: "block list"
        case .userSignOut(let device): "sign out \(device?.string ?? "all devices")"
        case .userDelete: "delete user"
        case .pushRegister(let body): "register for \(body.platform.rawValue) of \(body.app)"
        case .pushUnregister(let body): "unregister \(body.platform?.rawValue ?? "all") of \(body.app?.string ?? "all")"
        case .ringCheck(let body):
            "\(body.isRejected ? "reject" : "check") \(body.callID), invitation \(body.invitation), for \(body.device)"
        }
    }
}

extension [UserID] {
    fileprivate var story: String { map(\.string).joined(separator: "+") }
}

extension DownMessage {
    var story: String {
        switch self {
        case .response(let response):
            switch response.outcome {
            case .success(let success):
                "ok to request \(response.id): \(success.merged ? "merged, " : "")\(success.call.story)"
            case .answer(.message(let id, _, let state)): "message \(id) \(state.rawValue), to request \(response.id)"
            case .answer: "answer to request \(response.id)"
            case .failure(let error): "\(error.code) to request \(response.id) \(error.state ?? "")"
            }
        case .event(let event): "\(event.name.rawValue): \(event.call.story)"
        case .welcome(let welcome):
            "welcome to session \(welcome.session) with \(welcome.calls.count) calls: "
                + welcome.calls.map { "\($0.callID) revision \($0.revision)" }.joined(separator: ", ")
        case .error(let error): "error \(error)"
        case .signal(let signal): "signal in \(signal.callID) from \(signal.from)"
        case .message(let message): "message \(message.messageID) from \(message.from)"
        case .receipt(let receipt): "message \(receipt.messageID) to \(receipt.to) is \(receipt.state.rawValue)"
        case .tokenWillExpire(let expiresAt): "token ends at \(expiresAt)"
        }
    }
}

extension CallSnapshot {
    /// A short description of the call.
    var story: String {
        "\(callID) revision \(revision) \(mode.rawValue) \(state.rawValue)\(endReason.map { "/" + $0.rawValue } ?? "") ["
            + members.map { member in
                "\(member.userID) \(member.state.rawValue)" + (member.device.map { "@\($0)" } ?? "")
            }.joined(separator: ", ") + "]"
    }
}

/// The time of day in UTC, with milliseconds.
package func clock(_ at: Int64) -> String {
    func digits(_ value: Int64, _ count: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    let inDay = ((at % 86_400_000) + 86_400_000) % 86_400_000
    let (hours, minutes) = (inDay / 3_600_000, inDay / 60_000 % 60)
    return "\(digits(hours, 2)):\(digits(minutes, 2)):\(digits(inDay / 1000 % 60, 2)).\(digits(inDay % 1000, 3))"
}
