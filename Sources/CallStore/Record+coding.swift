import CallCore
import SignalingProtocol

/// The stored form of a record: JSON with short names, readable for an operator.
package enum RecordCodec {
    package static func encode(_ record: Record) -> [UInt8] {
        JSONWriter.object(capacity: 768) { writer in
            switch record {
            case .call(let call): encode(call, to: &writer)
            case .message(let message): encode(message, to: &writer)
            case .alias(let callID, let origin):
                writer.field("alias", callID.string)
                writer.object("origin") { encode(origin, to: &$0) }
            case .cancelled(let user, let at):
                writer.field("cancelledBy", user.string)
                writer.field("at", at)
            case .void: writer.field("void", true)
            case .unreadable: preconditionFailure("a record that cannot be read is never written")
            }
        }
    }

    package static func decode(_ bytes: [UInt8], _ id: RecordID) -> Record {
        bytes.withUnsafeBufferPointer { decode($0, id) }
    }

    package static func decode(_ bytes: UnsafeBufferPointer<UInt8>, _ id: RecordID) -> Record {
        guard case .object(let json)? = try? JSONParser.parse(bytes) else { return .unreadable }
        let reader = RecordReader(json)
        do throws(DamagedRecord) {
            switch id {
            case .call(let callID): return try record(reader, callID) ?? .unreadable
            case .message(let messageID, let user):
                return try message(reader, messageID, user).map(Record.message) ?? .unreadable
            }
        } catch {
            return .unreadable
        }
    }

    private static func record(_ json: RecordReader, _ callID: CallID) throws(DamagedRecord) -> Record? {
        if let target: CallID = json.id("alias"), let origin = json.object("origin").flatMap(requestKey) {
            return .alias(of: target, origin: origin)
        }
        if let user: UserID = json.id("cancelledBy"), let at = try json.time("at") {
            return .cancelled(by: user, at: at)
        }
        if json.bool("void") ?? false { return .void }
        return try call(json, callID).map(Record.call)
    }

    private static func encode(_ call: Call, to writer: inout JSONWriter) {
        writer.field("rev", call.revision)
        writer.field("mode", call.mode.rawValue)
        writer.field("state", call.state.rawValue)
        writer.field("media", call.media)
        writer.field("inviter", call.inviter.string)
        writer.field("created", call.createdAt)
        writer.field("accepted", call.acceptedAt)
        writer.field("ended", call.endedAt)
        writer.field("endReason", call.endReason?.rawValue)
        writer.field("endedBy", call.endedBy?.string)
        writer.field("timeout", call.timeout)
        writer.field("data", call.extendedData)
        if call.joinPolicy != .invited { writer.field("join", call.joinPolicy.rawValue) }
        if !call.autoEnd { writer.field("autoEnd", false) }
        writer.field("notReceivedAfter", call.notReceivedAfter)
        writer.field("updated", call.updatedAt)
        writer.field("actor", call.actor?.string)
        writer.object("origin") { writer in
            encode(call.origin, to: &writer)
            writer.field("digest", call.originDigest)
        }
        writer.field("callerLostAt", call.callerLostAt)
        writer.field("heartbeatDue", call.heartbeatDue)
        writer.field("emptySince", call.emptySince)
        writer.field("deliveryDue", call.deliveryDue)
        writer.field("deliveryServed", call.deliveryServedAt)
        writer.array("members") { writer in
            for member in call.members { writer.object { encode(member, to: &$0) } }
        }
        writer.array("outcomes") { writer in
            for outcome in call.outcomes { writer.object { encode(outcome, to: &$0) } }
        }
        guard !call.pushTexts.isEmpty else { return }
        writer.array("pushes") { writer in
            for texts in call.pushTexts { writer.object { encode(texts, to: &$0) } }
        }
    }

    /// The data stands as a JSON string, so that exactly its bytes are kept.
    private static func encode(_ message: PeerMessage, to writer: inout JSONWriter) {
        writer.object("origin") { writer in
            encode(message.origin, to: &writer)
            writer.field("digest", message.digest)
        }
        writer.field("created", message.createdAt)
        writer.field("expires", message.expiresAt)
        writer.field("seq", message.seq)
        writer.field("stream", message.stream)
        writer.field("data", message.data?.description)
        writer.field("state", message.state.rawValue)
        writer.field("finished", message.finishedAt)
        writer.field("served", message.servedAt)
        writer.field("receiptDue", message.receiptDue)
        if message.isWithheld { writer.field("withheld", true) }
    }

    private static func message(
        _ json: RecordReader, _ messageID: MessageID, _ user: UserID
    ) throws(DamagedRecord) -> PeerMessage? {
        guard let asked = json.object("origin"), let origin = requestKey(asked), let created = try json.time("created"),
            let expires = try json.time("expires"), let state: MessageState = json.choice("state"),
            let served = try json.time("served"), let digest = asked.integer("digest")
        else { return nil }
        let data = json.string("data").flatMap { JSONText($0) }
        guard (data != nil) == (state == .sent) else { return nil }
        return PeerMessage(
            messageID: messageID, to: user, origin: origin, createdAt: created, expiresAt: expires,
            seq: try json.time("seq"), stream: json.string("stream"), digest: digest,
            progress: .init(
                data: data, state: state, finishedAt: try json.time("finished"), servedAt: served,
                receiptDue: try json.time("receiptDue"), isWithheld: json.bool("withheld") ?? false))
    }

    private static func encode(_ key: RequestKey, to writer: inout JSONWriter) {
        writer.field("user", key.device.userID.string)
        writer.field("device", key.device.deviceID.string)
        writer.field("id", key.requestID.string)
    }

    private static func encode(_ member: Member, to writer: inout JSONWriter) {
        writer.field("user", member.userID.string)
        writer.field("name", member.name)
        writer.field("avatar", member.avatarURL)
        writer.field("state", member.state.rawValue)
        writer.field("device", member.device?.string)
        writer.field("by", member.invitedBy?.string)
        writer.field("expires", member.expiresAt)
        writer.field("updated", member.updatedAt)
        writer.field("reason", member.reason)
        writer.field("data", member.extendedData)
        writer.field("invitedRev", member.invitedRevision)
        writer.field("changedRev", member.changedRevision)
        writer.field("handledRev", member.handledRevision)
        if member.isHandledByCheck { writer.field("byCheck", true) }
        writer.field("notReceivedAt", member.notReceivedAt)
        if member.hasResponded { writer.field("responded", true) }
        if member.isWithheld { writer.field("withheld", true) }
        if member.mayBePushed { writer.field("push", true) }
        writer.field("invitedAt", member.ownInvitedAt)
    }

    private static func encode(_ texts: InvitationTexts, to writer: inout JSONWriter) {
        writer.field("rev", texts.invitation)
        writer.field("title", texts.push.title)
        writer.field("content", texts.push.content)
        writer.field("payload", texts.push.payload)
        guard let missed = texts.push.missed else { return }
        writer.object("missed") { writer in
            writer.field("title", missed.title)
            writer.field("content", missed.content)
        }
    }

    private static func encode(_ outcome: RequestOutcome, to writer: inout JSONWriter) {
        encode(outcome.key, to: &writer)
        writer.field("type", outcome.type)
        writer.field("digest", outcome.digest)
        if let offline = outcome.offline {
            writer.array("offline") { writer in
                for user in offline { writer.string(user.string) }
            }
        }
        if !outcome.errors.isEmpty {
            writer.array("errors") { writer in
                for error in outcome.errors {
                    writer.object { writer in
                        writer.field("user", error.userID.string)
                        writer.field("code", error.code.rawValue)
                    }
                }
            }
        }
        if outcome.merged { writer.field("merged", true) }
    }

    private static func call(_ json: RecordReader, _ callID: CallID) throws(DamagedRecord) -> Call? {
        guard let mode: CallMode = json.choice("mode"), let inviter: UserID = json.id("inviter"),
            let created = try json.time("created"), let timeout = try json.count("timeout"),
            let asked = json.object("origin"), let origin = requestKey(asked), let revision = try json.count("rev"),
            let state: BellwireCallState = json.choice("state"), let updated = try json.time("updated"),
            let served = try json.time("deliveryServed")
        else { return nil }
        // The inviter comes first, and a call has at least two members.
        var members: [Member] = []
        for json in json.objects("members") {
            guard let member = try member(json), !members.contains(where: { $0.userID == member.userID }) else {
                return nil
            }
            members.append(member)
        }
        guard members.count >= 2 else { return nil }
        let beginning = Call(
            callID: callID, mode: mode, media: json.string("media"), inviter: inviter, createdAt: created,
            timeout: Int(timeout), extendedData: json.string("data"), joinPolicy: json.choice("join") ?? .invited,
            autoEnd: json.bool("autoEnd") ?? true, notReceivedAfter: try json.count("notReceivedAfter"), origin: origin,
            originDigest: asked.integer("digest"))
        return Call(
            beginning, revision: Int(revision), state: state, acceptedAt: try json.time("accepted"),
            endedAt: try json.time("ended"), endReason: json.choice("endReason"), endedBy: json.id("endedBy"),
            members: members, updatedAt: updated, actor: json.id("actor"),
            outcomes: json.objects("outcomes").compactMap(outcome), callerLostAt: try json.time("callerLostAt"),
            heartbeatDue: try json.time("heartbeatDue"), emptySince: try json.time("emptySince"),
            deliveryDue: try json.time("deliveryDue"), deliveryServedAt: served,
            pushTexts: json.objects("pushes").compactMap(pushTexts))
    }

    private static func pushTexts(_ json: RecordReader) -> InvitationTexts? {
        guard let invitation = try? json.count("rev") else { return nil }
        let push = Request.Push(
            title: json.string("title"), content: json.string("content"), payload: json.string("payload"),
            missed: json.object("missed").map {
                Request.Push.Missed(title: $0.string("title"), content: $0.string("content"))
            })
        return InvitationTexts(invitation: Int(invitation), push)
    }

    private static func requestKey(_ json: RecordReader) -> RequestKey? {
        guard let user: UserID = json.id("user"), let device: DeviceID = json.id("device"),
            let requestID: RequestID = json.id("id")
        else { return nil }
        return RequestKey(device: DeviceAddress(userID: user, deviceID: device), requestID: requestID)
    }

    private static func member(_ json: RecordReader) throws(DamagedRecord) -> Member? {
        guard let user: UserID = json.id("user"), let state: MemberState = json.choice("state"),
            let updated = try json.time("updated")
        else { return nil }
        return Member(
            userID: user, name: json.string("name"), avatarURL: json.string("avatar"), state: state,
            device: json.id("device"), invitedBy: json.id("by"), expiresAt: try json.time("expires"),
            updatedAt: updated, reason: json.string("reason"), extendedData: json.string("data"),
            invitedRevision: Int(try json.count("invitedRev") ?? 0),
            changedRevision: Int(try json.count("changedRev") ?? 0),
            handledRevision: Int(try json.count("handledRev") ?? 0), notReceivedAt: try json.time("notReceivedAt"),
            hasResponded: json.bool("responded") ?? false, isWithheld: json.bool("withheld") ?? false,
            mayBePushed: json.bool("push") ?? false, ownInvitedAt: try json.time("invitedAt"),
            isHandledByCheck: json.bool("byCheck") ?? false)
    }

    private static func outcome(_ json: RecordReader) -> RequestOutcome? {
        guard let key = requestKey(json), let type = json.string("type") else { return nil }
        let errors = json.objects("errors").compactMap { json -> UserError? in
            guard let user: UserID = json.id("user"), let code = json.string("code") else { return nil }
            return UserError(userID: user, code: ErrorCode(rawValue: code))
        }
        return RequestOutcome(
            key: key, type: type, digest: json.integer("digest"),
            offline: json.strings("offline")?.compactMap { UserID($0) }, errors: errors,
            merged: json.bool("merged") ?? false)
    }
}

/// The error of a field with a value that no coordinator writes. A decision from such a value could overflow an
/// integer. The overflow would end this coordinator, and then each coordinator that takes the record over.
private struct DamagedRecord: Error {}

/// Typed access to a stored JSON object.
private struct RecordReader {
    private let json: JSONObject

    init(_ json: JSONObject) { self.json = json }

    func string(_ key: String) -> String? { json[key]?.string }
    func time(_ key: String) throws(DamagedRecord) -> Int64? { try integer(key, in: StoredNumber.times) }
    func count(_ key: String) throws(DamagedRecord) -> Int64? { try integer(key, in: StoredNumber.counts) }
    func bool(_ key: String) -> Bool? { json[key]?.bool }
    func integer(_ key: String) -> Int64? { json[key]?.integer }
    func id<ID: ByteIdentifier>(_ key: String) -> ID? { json[key]?.string.flatMap { ID($0) } }
    func object(_ key: String) -> RecordReader? { json[key]?.object.map(RecordReader.init) }
    func strings(_ key: String) -> [String]? { json[key]?.array?.compactMap(\.string) }

    private func integer(_ key: String, in range: ClosedRange<Int64>) throws(DamagedRecord) -> Int64? {
        guard let value = json[key] else { return nil }
        guard let integer = value.integer, range.contains(integer) else { throw DamagedRecord() }
        return integer
    }

    func choice<Choice: RawRepresentable>(_ key: String) -> Choice? where Choice.RawValue == String {
        json[key]?.string.flatMap(Choice.init)
    }

    func objects(_ key: String) -> [RecordReader] {
        json[key]?.array?.compactMap { $0.object.map(RecordReader.init) } ?? []
    }
}
