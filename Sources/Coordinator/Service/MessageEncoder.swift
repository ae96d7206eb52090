import CallCore
import SignalingProtocol

/// Encodes responses and errors as outbound messages: with their topic, their bytes, and the time for keeping by the
/// broker.
struct MessageEncoder {
    let topics: Topics

    func message(_ reply: Reply) -> OutboundMessage {
        switch reply.content {
        case .response(let id, let outcome): response(id, outcome, to: reply.device, reply.path)
        case .error(let error): refusal(error, topic: topics.down(reply.device), reply.path.brokers)
        }
    }

    func response(
        _ id: RequestID, _ outcome: Response.Outcome, to device: DeviceAddress, _ path: ReplyPath
    ) -> OutboundMessage {
        let (payload, isTrimmed) = bounded(.response(Response(id: id, outcome: outcome)))
        var message = OutboundMessage(
            topic: path.level.map { topics.down(device) + "/" + $0 } ?? topics.down(device), payload: payload,
            correlationData: path.correlationData,
            expirySeconds: ServiceBounds.messageExpirySeconds, brokers: path.brokers, isTrimmed: isTrimmed)
        message.timing = path.origin.map { .response($0, outcome: outcome.name) }
        return message
    }

    /// Returns the error message for a message that has no request id.
    func refusal(_ error: SignalingError, topic: String, _ brokers: BrokerSet) -> OutboundMessage {
        OutboundMessage(
            topic: topic, payload: DownMessage.error(error).encoded(),
            expirySeconds: ServiceBounds.messageExpirySeconds, brokers: brokers)
    }

    /// Returns the bytes of a message, within the bound on messages to devices. A call that exceeds the bound because
    /// of its members' `extendedData` is sent without that data. (Control characters take six bytes each in JSON.) The
    /// response to `call.get` has the same bound, and may lack the data too. A timeline that would exceed the bound
    /// loses its oldest entries, and then its reports. `most` bounds the message with its members' `extendedData`, in
    /// bytes.
    func bounded(_ message: DownMessage, most: Int = Limits.downBytes) -> (payload: [UInt8], isTrimmed: Bool) {
        var bytes = message.encoded()
        guard bytes.count > most else { return (bytes, false) }
        var trimmed = message.withoutExtendedData
        bytes = trimmed.encoded()
        while bytes.count > Limits.downBytes, trimmed.dropOldestEntries() || trimmed.dropReports() {
            bytes = trimmed.encoded()
        }
        return (bytes, true)
    }
}

extension DownMessage {
    /// Drops the older half of a timeline. Returns false when no entry is left.
    fileprivate mutating func dropOldestEntries() -> Bool {
        guard case .response(var response) = self, case .success(var success) = response.outcome,
            let count = success.timeline?.entries.count, count > 0
        else { return false }
        success.timeline?.entries.removeFirst((count + 1) / 2)
        success.timeline?.omitted += (count + 1) / 2
        response.outcome = .success(success)
        self = .response(response)
        return true
    }

    /// Drops the last half of the devices' reports. Returns false when no report is left.
    fileprivate mutating func dropReports() -> Bool {
        guard case .response(var response) = self, case .success(var success) = response.outcome,
            !success.reports.isEmpty
        else { return false }
        success.reports.removeLast((success.reports.count + 1) / 2)
        response.outcome = .success(success)
        self = .response(response)
        return true
    }

    fileprivate var withoutExtendedData: DownMessage {
        switch self {
        case .event(var event):
            for index in event.changes.indices { event.changes[index].extendedData = nil }
            event.call.removeExtendedData()
            event.omitsExtendedData = true
            return .event(event)
        case .response(var response):
            switch response.outcome {
            case .success(var success):
                success.call.removeExtendedData()
                response.outcome = .success(success)
            case .answer(.calls(var calls, let cursor)):
                for index in calls.indices { calls[index].removeExtendedData() }
                response.outcome = .answer(.calls(calls, cursor: cursor))
            case .answer(.users(var users, let errors)):
                for index in users.indices { users[index].extendedData = nil }
                response.outcome = .answer(.users(users, errors: errors))
            case .answer, .failure: break
            }
            return .response(response)
        case .welcome, .error, .signal, .message, .receipt, .tokenWillExpire: return self
        }
    }
}

extension CallSnapshot {
    fileprivate mutating func removeExtendedData() {
        for index in members.indices { members[index].extendedData = nil }
    }
}
