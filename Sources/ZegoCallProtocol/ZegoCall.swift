import SignalingProtocol

/// A call in the terms of ZEGO Call's business-server protocol (docs/migrate/zego-call-server.md).
///
/// The caller's data travels as the call's `extendedData`, so that the data arrives unchanged:
/// `{"zegoCall":{"call_id":"…","caller":{"id","name"},"callees":[{"id","name"}],"type":1}}`.
package struct ZegoCall: Equatable, Sendable {
    package struct Party: Equatable, Sendable {
        package var id: String
        package var name: String

        package init(id: String, name: String) {
            self.id = id
            self.name = name
        }
    }

    package enum Kind: Int64, Sendable {
        case voice = 1
        case video = 2

        /// The `media` of `call.invite`.
        package var media: String {
            switch self {
            case .voice: "voice"
            case .video: "video"
            }
        }
    }

    /// The way in which a callee declines: the `type` of the request and of the notification.
    package enum Decline: Int64, Sendable {
        case declined = 1
        case busy = 2

        /// Creates the value for the reason of a `call.reject`: every reason but `busy` is a decline.
        package init(reason: String?) { self = reason == WellKnownReason.busy ? .busy : .declined }

        /// The `reason` of `call.reject`.
        package var reason: String {
            switch self {
            case .declined: WellKnownReason.declined
            case .busy: WellKnownReason.busy
            }
        }
    }

    package var id: String
    package var caller: Party
    package var callees: [Party]
    package var kind: Kind

    package init(id: String, caller: Party, callees: [Party], kind: Kind) {
        self.id = id
        self.caller = caller
        self.callees = callees
        self.kind = kind
    }

    /// How long an invitation lasts, in seconds. ZEGO's protocol names no time; Bellwire's default is
    /// 60 seconds as well.
    package static let timeout = 60

    /// Returns Bellwire's id of the call: `call_id` itself if that is a valid callID, else 32 hexadecimal digits of its
    /// SHA-256.
    package static func callID(_ id: String) -> CallID? {
        if id.isEmpty { return nil }
        return CallID(id) ?? CallID(shortened(id))
    }

    /// Returns 32 hexadecimal digits of the text's SHA-256.
    package static func shortened(_ text: String) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let bytes = sha256(Array(text.utf8)).prefix(16)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

// MARK: As a call of Bellwire

extension ZegoCall {
    /// Creates the ZEGO Call form of any call of Bellwire: with the data of its caller if there is such data, else from
    /// the call itself.
    package init(_ call: CallSnapshot) {
        self = Self.given(call) ?? Self.made(of: call)
    }

    /// Returns the caller's data. Any user may write extendedData, so only data that names this call and this caller
    /// counts.
    private static func given(_ call: CallSnapshot) -> ZegoCall? {
        guard let data = call.extendedData, let json = try? JSONParser.parse(Array(data.utf8)),
            let found = json.object?["zegoCall"]?.object.flatMap(ZegoCall.init(json:)),
            callID(found.id) == call.callID, UserID(found.caller.id) == call.inviter
        else { return nil }
        return found
    }

    private static func made(of call: CallSnapshot) -> ZegoCall {
        func party(_ member: MemberSnapshot) -> Party {
            Party(id: member.userID.string, name: member.name ?? member.userID.string)
        }
        let caller = call.member(call.inviter).map(party) ?? Party(id: call.inviter.string, name: call.inviter.string)
        return ZegoCall(
            id: call.callID.string, caller: caller,
            callees: call.members.filter { $0.userID != call.inviter }.map(party),
            kind: call.media == Kind.video.media ? .video : .voice)
    }

    /// The `extendedData` of `call.invite`.
    package var extendedData: String {
        let bytes = JSONWriter.object { writer in
            writer.object("zegoCall") { writer in
                write(to: &writer)
                writer.field("type", kind.rawValue)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Writes all fields but the type, which has two names in a notification.
    func write(to writer: inout JSONWriter) {
        writer.field("call_id", id)
        writer.object("caller") { caller.write(to: &$0) }
        writer.array("callees") { writer in
            for callee in callees { writer.object { callee.write(to: &$0) } }
        }
    }

    private init?(json: JSONObject) {
        guard let id = json["call_id"]?.string, let caller = json["caller"].flatMap(Party.init),
            let list = json["callees"]?.array, let kind = json["type"]?.integer.flatMap(Kind.init)
        else { return nil }
        self.init(id: id, caller: caller, callees: list.compactMap(Party.init), kind: kind)
    }
}

extension ZegoCall.Party {
    /// Creates a party from `{"id","name"}`; nil for any other value. A missing name is empty.
    package init?(_ value: JSONValue) {
        guard let object = value.object, let id = object["id"]?.string else { return nil }
        guard let name = object["name"] else {
            self.init(id: id, name: "")
            return
        }
        guard let name = name.string else { return nil }
        self.init(id: id, name: name)
    }

    func write(to writer: inout JSONWriter) {
        writer.field("id", id)
        writer.field("name", name)
    }
}
