import SignalingProtocol
import Tokens

/// A call as ZEGO Call's business-server protocol names it (docs/migrate/zego-call-server.md).
///
/// What the caller gave travels as the call's `extendedData`, so that it arrives as it was given:
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

        /// `media` of `call.invite`.
        package var media: String {
            switch self {
            case .voice: "voice"
            case .video: "video"
            }
        }
    }

    /// How a callee declines: `type` of the request and of the notification.
    package enum Decline: Int64, Sendable {
        case declined = 1
        case busy = 2

        /// By the reason of a `call.reject`: whatever is not busy is a decline.
        package init(reason: String?) { self = reason == WellKnownReason.busy ? .busy : .declined }

        /// `reason` of `call.reject`.
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

    /// Seconds for which an invitation stands: the document names none, and its clients wait for 60.
    package static let timeout = 60

    /// Under which name Bellwire knows the call: `call_id` as it is where it can be a callID, else 32 hexadecimal digits of its SHA-256.
    package static func callID(_ id: String) -> CallID? {
        if id.isEmpty { return nil }
        return CallID(id) ?? CallID(shortened(id))
    }

    /// 32 hexadecimal digits that stand for a text.
    package static func shortened(_ text: String) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let bytes = Digest.sha256(Array(text.utf8)).prefix(16)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

// MARK: Within Bellwire's call

extension ZegoCall {
    /// What a call of Bellwire is to these clients, whoever made it: as its caller gave it, else as the call itself tells.
    package init(_ call: CallSnapshot) {
        self = Self.given(call) ?? Self.made(of: call)
    }

    /// Only what names this call, by this caller, counts: anybody may write extendedData.
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

    /// `extendedData` of `call.invite`.
    package var extendedData: String {
        let bytes = JSONWriter.object { writer in
            writer.object("zegoCall") { writer in
                write(to: &writer)
                writer.field("type", kind.rawValue)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// All but the type, which has two names in a notification.
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
    /// Nil when it is no `{"id","name"}`. A name that is left out is empty.
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
