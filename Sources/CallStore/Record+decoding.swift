import CallCore
import SignalingProtocol

/// The decoding of records, field by field: coordinators decode each record that another coordinator has written.
///
/// A field with a value of another kind than expected counts as absent. A number out of its range, and a member that
/// cannot be read, make the whole record unreadable.
extension RecordCodec {
    package static func decode(_ bytes: [UInt8], _ id: RecordID) -> Record {
        bytes.withUnsafeBufferPointer { decode($0, id) }
    }

    package static func decode(_ bytes: UnsafeBufferPointer<UInt8>, _ id: RecordID) -> Record {
        let record: Record? =
            switch id {
            case .call(let callID): try? decode(bytes, callID)
            case .message(let messageID, let user): try? decode(bytes, messageID, user)
            }
        return record ?? .unreadable
    }

    private static func decode(_ bytes: UnsafeBufferPointer<UInt8>, _ callID: CallID) throws -> Record? {
        var stored = StoredCall()
        try JSONParser.readObject(bytes) { name, json in
            switch name {
            case "alias": stored.alias = try json.id()
            case "cancelledBy": stored.cancelledBy = try json.id()
            case "at": stored.cancelledAt = try json.value()
            case "void": stored.isVoid = try json.value().bool ?? false
            default: try stored.read(name, &json)
            }
        }
        if let target = stored.alias, let origin = stored.origin { return .alias(of: target, origin: origin.key) }
        if let user = stored.cancelledBy, let at = try time(stored.cancelledAt) { return .cancelled(by: user, at: at) }
        if stored.isVoid { return .void }
        return stored.call(callID).map(Record.call)
    }

    private static func decode(
        _ bytes: UnsafeBufferPointer<UInt8>, _ messageID: MessageID, _ user: UserID
    ) throws -> Record? {
        var origin: StoredOrigin?
        var data: JSONText?
        var (created, expires, served, finished): (Int64?, Int64?, Int64?, Int64?)
        var (seq, receiptDue): (Int64?, Int64?)
        var stream: String?
        var state: MessageState?
        var isWithheld = false
        try JSONParser.readObject(bytes) { name, json in
            switch name {
            case "origin": origin = try json.origin()
            case "created": created = try json.time()
            case "expires": expires = try json.time()
            case "seq": seq = try json.time()
            case "stream": stream = try json.value().string
            case "data": data = try json.value().string.flatMap { JSONText($0) }
            case "state": state = try json.choice()
            case "finished": finished = try json.time()
            case "served": served = try json.time()
            case "receiptDue": receiptDue = try json.time()
            case "withheld": isWithheld = try json.value().bool ?? false
            default: try json.skip()
            }
        }
        guard let origin, let digest = origin.digest, let created, let expires, let state, let served,
            (data != nil) == (state == .sent)
        else { return nil }
        let message = PeerMessage(
            messageID: messageID, to: user, origin: origin.key, createdAt: created, expiresAt: expires, seq: seq,
            stream: stream, digest: digest,
            progress: .init(
                data: data, state: state, finishedAt: finished, servedAt: served, receiptDue: receiptDue,
                isWithheld: isWithheld))
        return .message(message)
    }
}

/// The error of a number that no coordinator writes. A decision from such a number could overflow an integer. The
/// overflow would end this coordinator, and then each coordinator that takes the record over.
private struct DamagedRecord: Error {}

private func integer(_ value: JSONValue?, in range: ClosedRange<Int64>) throws(DamagedRecord) -> Int64? {
    switch value {
    case nil, .null: return nil
    case .int(let integer) where range.contains(integer): return integer
    case let value?:
        guard let integer = value.integer, range.contains(integer) else { throw DamagedRecord() }
        return integer
    }
}

private func time(_ value: JSONValue?) throws(DamagedRecord) -> Milliseconds? {
    try integer(value, in: StoredNumber.times)
}

/// A stored request key, with the digest of the request's content.
private struct StoredOrigin {
    let key: RequestKey
    let digest: Int64?
}

extension JSONParser {
    fileprivate mutating func time() throws -> Int64? { try integer(value(), in: StoredNumber.times) }
    fileprivate mutating func count() throws -> Int? { try integer(value(), in: StoredNumber.counts).map { Int($0) } }
    fileprivate mutating func id<ID: ByteIdentifier>() throws -> ID? { try value().string.flatMap { ID($0) } }

    fileprivate mutating func choice<Choice: RawRepresentable>() throws -> Choice? where Choice.RawValue == String {
        try value().string.flatMap(Choice.init)
    }

    fileprivate mutating func origin() throws -> StoredOrigin? {
        var fields = OriginFields()
        guard try object({ name, json in try fields.read(name, &json) }) else { return nil }
        return fields.key.map { StoredOrigin(key: $0, digest: fields.digest) }
    }

    /// Takes an array; a value of another kind counts as empty.
    fileprivate mutating func elements(_ read: (inout JSONParser) throws -> Void) throws {
        _ = try array { json in try read(&json) }
    }
}

/// The fields of a request key, which an outcome has among its own.
private struct OriginFields {
    private var user: UserID?
    private var device: DeviceID?
    private var id: RequestID?
    private(set) var digest: Int64?

    var key: RequestKey? {
        guard let user, let device, let id else { return nil }
        return RequestKey(device: DeviceAddress(userID: user, deviceID: device), requestID: id)
    }

    mutating func read(_ name: JSONParser.FieldName, _ json: inout JSONParser) throws {
        switch name {
        case "user": user = try json.id()
        case "device": device = try json.id()
        case "id": id = try json.id()
        case "digest": digest = try json.value().integer
        default: try json.skip()
        }
    }
}

/// The fields of a call's record.
private struct StoredCall {
    var alias: CallID?
    var cancelledBy: UserID?
    var cancelledAt: JSONValue?
    var isVoid = false

    private(set) var origin: StoredOrigin?
    private var mode: CallMode?
    private var media: String?
    private var inviter: UserID?
    private var created: Int64?
    private var timeout: Int?
    private var data: String?
    private var joinPolicy = JoinPolicy.invited
    private var autoEnd = true
    private var notReceivedAfter: Int?
    private var revision: Int?
    private var state: BellwireCallState?
    private var accepted: Int64?
    private var ended: Int64?
    private var endReason: EndReason?
    private var endedBy: UserID?
    private var updated: Int64?
    private var actor: UserID?
    private var callerLostAt: Int64?
    private var heartbeatDue: Int64?
    private var emptySince: Int64?
    private var deliveryDue: Int64?
    private var deliveryServed: Int64?
    /// Nil when a member is damaged.
    private var members: [Member]? = []
    private var outcomes: [RequestOutcome] = []
    private var pushTexts: [InvitationTexts] = []

    mutating func read(_ name: JSONParser.FieldName, _ json: inout JSONParser) throws {
        switch name {
        case "rev": revision = try json.count()
        case "mode": mode = try json.choice()
        case "state": state = try json.choice()
        case "media": media = try json.value().string
        case "inviter": inviter = try json.id()
        case "created": created = try json.time()
        case "accepted": accepted = try json.time()
        case "ended": ended = try json.time()
        case "endReason": endReason = try json.choice()
        case "endedBy": endedBy = try json.id()
        case "timeout": timeout = try json.count()
        case "data": data = try json.value().string
        case "join": joinPolicy = try json.choice() ?? .invited
        case "autoEnd": autoEnd = try json.value().bool ?? true
        case "notReceivedAfter": notReceivedAfter = try json.count()
        case "updated": updated = try json.time()
        case "actor": actor = try json.id()
        case "origin": origin = try json.origin()
        case "callerLostAt": callerLostAt = try json.time()
        case "heartbeatDue": heartbeatDue = try json.time()
        case "emptySince": emptySince = try json.time()
        case "deliveryDue": deliveryDue = try json.time()
        case "deliveryServed": deliveryServed = try json.time()
        // If a field stands twice, its last value counts.
        case "members":
            members = []
            try json.elements { json in
                guard let member = try json.member() else {
                    members = nil
                    return
                }
                members?.append(member)
            }
        case "outcomes":
            outcomes = []
            try json.elements { json in if let outcome = try json.outcome() { outcomes.append(outcome) } }
        case "pushes":
            pushTexts = []
            try json.elements { json in if let texts = try json.pushTexts() { pushTexts.append(texts) } }
        default: try json.skip()
        }
    }

    private func areDistinct(_ members: [Member]) -> Bool {
        // Most calls have two members, and a set costs more than a comparison.
        if members.count == 2 { return members[0].userID != members[1].userID }
        return Set(members.map(\.userID)).count == members.count
    }

    /// Nil when a field that each call has is missing.
    func call(_ callID: CallID) -> Call? {
        guard let mode, let inviter, let created, let timeout, let origin, let revision, let state, let updated,
            let deliveryServed, let members,
            // The inviter comes first, and a call has at least two members, each once.
            members.count >= 2, areDistinct(members)
        else { return nil }
        let beginning = Call(
            callID: callID, mode: mode, media: media, inviter: inviter, createdAt: created, timeout: timeout,
            extendedData: data, joinPolicy: joinPolicy, autoEnd: autoEnd,
            notReceivedAfter: notReceivedAfter.map { Milliseconds($0) }, origin: origin.key,
            originDigest: origin.digest)
        return Call(
            beginning, revision: revision, state: state, acceptedAt: accepted, endedAt: ended, endReason: endReason,
            endedBy: endedBy, members: members, updatedAt: updated, actor: actor, outcomes: outcomes,
            callerLostAt: callerLostAt, heartbeatDue: heartbeatDue, emptySince: emptySince, deliveryDue: deliveryDue,
            deliveryServedAt: deliveryServed, pushTexts: pushTexts)
    }
}

extension JSONParser {
    /// Nil for a damaged member.
    fileprivate mutating func member() throws -> Member? {
        var (user, invitedBy): (UserID?, UserID?)
        var device: DeviceID?
        var (name, avatarURL, reason, data): (String?, String?, String?, String?)
        var state: MemberState?
        var (expires, updated, notReceivedAt, invitedAt): (Int64?, Int64?, Int64?, Int64?)
        var (invitedRevision, changedRevision, handledRevision) = (0, 0, 0)
        var (isHandledByCheck, hasResponded, isWithheld, mayBePushed) = (false, false, false, false)
        let isObject = try object { field, json in
            switch field {
            case "user": user = try json.id()
            case "name": name = try json.value().string
            case "avatar": avatarURL = try json.value().string
            case "state": state = try json.choice()
            case "device": device = try json.id()
            case "by": invitedBy = try json.id()
            case "expires": expires = try json.time()
            case "updated": updated = try json.time()
            case "reason": reason = try json.value().string
            case "data": data = try json.value().string
            case "invitedRev": invitedRevision = try json.count() ?? 0
            case "changedRev": changedRevision = try json.count() ?? 0
            case "handledRev": handledRevision = try json.count() ?? 0
            case "byCheck": isHandledByCheck = try json.value().bool ?? false
            case "notReceivedAt": notReceivedAt = try json.time()
            case "responded": hasResponded = try json.value().bool ?? false
            case "withheld": isWithheld = try json.value().bool ?? false
            case "push": mayBePushed = try json.value().bool ?? false
            case "invitedAt": invitedAt = try json.time()
            default: try json.skip()
            }
        }
        guard isObject, let user, let state, let updated else { return nil }
        return Member(
            userID: user, name: name, avatarURL: avatarURL, state: state, device: device, invitedBy: invitedBy,
            expiresAt: expires, updatedAt: updated, reason: reason, extendedData: data,
            invitedRevision: invitedRevision, changedRevision: changedRevision, handledRevision: handledRevision,
            notReceivedAt: notReceivedAt, hasResponded: hasResponded, isWithheld: isWithheld,
            mayBePushed: mayBePushed, ownInvitedAt: invitedAt, isHandledByCheck: isHandledByCheck)
    }

    fileprivate mutating func outcome() throws -> RequestOutcome? {
        var origin = OriginFields()
        var type: String?
        var offline: [UserID]?
        var errors: [UserError] = []
        var isMerged = false
        let isObject = try object { name, json in
            switch name {
            case "type": type = try json.value().string
            case "offline":
                var users: [UserID] = []
                let isArray = try json.array { json in if let user: UserID = try json.id() { users.append(user) } }
                offline = isArray ? users : nil
            case "errors":
                errors = []
                try json.elements { json in if let error = try json.userError() { errors.append(error) } }
            case "merged": isMerged = try json.value().bool ?? false
            default: try origin.read(name, &json)
            }
        }
        guard isObject, let key = origin.key, let type else { return nil }
        return RequestOutcome(
            key: key, type: type, digest: origin.digest, offline: offline, errors: errors, merged: isMerged)
    }

    private mutating func userError() throws -> UserError? {
        var user: UserID?
        var code: String?
        _ = try object { name, json in
            switch name {
            case "user": user = try json.id()
            case "code": code = try json.value().string
            default: try json.skip()
            }
        }
        guard let user, let code else { return nil }
        return UserError(userID: user, code: ErrorCode(rawValue: code))
    }

    fileprivate mutating func pushTexts() throws -> InvitationTexts? {
        var invitation: Int?
        var (title, content, payload): (String?, String?, String?)
        var missed: Request.Push.Missed?
        _ = try object { name, json in
            switch name {
            case "rev": invitation = try json.count()
            case "title": title = try json.value().string
            case "content": content = try json.value().string
            case "payload": payload = try json.value().string
            case "missed":
                var (title, content): (String?, String?)
                let isObject = try json.object { name, json in
                    switch name {
                    case "title": title = try json.value().string
                    case "content": content = try json.value().string
                    default: try json.skip()
                    }
                }
                missed = isObject ? Request.Push.Missed(title: title, content: content) : nil
            default: try json.skip()
            }
        }
        guard let invitation else { return nil }
        return InvitationTexts(
            invitation: invitation, Request.Push(title: title, content: content, payload: payload, missed: missed))
    }
}
