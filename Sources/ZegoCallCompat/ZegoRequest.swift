internal import Foundation
internal import SignalingProtocol
internal import ZegoCallProtocol

/// A request of ZEGO's document 003 (docs/reference/sources.md), with parsed parameters.
struct ZegoRequest: Equatable, Sendable {
    enum Action: Equatable, Sendable {
        case start(ZegoCall)
        case cancel(callee: UserID)
        case accept
        case decline(ZegoCall.Decline)
        case end
        case heartbeat
    }

    /// The user who makes the request, by the parameters.
    let userID: UserID
    let callID: CallID
    let action: Action

    /// - Throws: `paramInvalid` for an unknown path, and for a parameter that is missing, of another type or out of
    ///   range.
    init(_ path: String, _ parameter: [String: AnyObject]) throws(ZegoError) {
        let fields = Fields(values: parameter)
        let given = try fields.text("call_id")
        guard let callID = ZegoCall.callID(given) else { throw .paramInvalid }
        self.callID = callID
        if path == API_Start_Call {
            let call = try fields.call(given)
            (userID, action) = (try Fields.userID(call.caller.id), .start(call))
        } else {
            action = try Self.action(path, fields)
            userID = try Fields.userID(try fields.text("id"))
        }
    }

    private static func action(_ path: String, _ fields: Fields) throws(ZegoError) -> Action {
        switch path {
        case API_Cancel_Call: return .cancel(callee: try Fields.userID(try fields.text("callee_id")))
        case API_Accept_Call: return .accept
        case API_Decline_Call:
            _ = try Fields.userID(try fields.text("caller_id"))
            guard let type = DeclineType(rawValue: try fields.number("type")) else { throw .paramInvalid }
            return .decline(type.decline)
        case API_End_Call: return .end
        case API_Call_Heartbeat: return .heartbeat
        default: throw .paramInvalid
        }
    }
}

/// A reader of parameters, which may be Swift or Foundation values.
private struct Fields {
    let values: [String: Any]

    /// Returns a non-empty string.
    func text(_ name: String) throws(ZegoError) -> String {
        guard let text = values[name] as? String, !text.isEmpty else { throw .paramInvalid }
        return text
    }

    func number(_ name: String) throws(ZegoError) -> Int {
        switch values[name] {
        case let number as Int: return number
        case let number as any BinaryInteger:
            guard let number = Int(exactly: number) else { throw .paramInvalid }
            return number
        default: throw .paramInvalid
        }
    }

    static func userID(_ text: String) throws(ZegoError) -> UserID {
        guard let user = UserID(text) else { throw .paramInvalid }
        return user
    }

    /// Returns the call of `start_call`. The protocol bounds `extendedData`: names that do not fit are refused.
    func call(_ id: String) throws(ZegoError) -> ZegoCall {
        guard let caller = values["caller"] as? [String: Any], let listed = values["callees"] as? [Any],
            let type = CallType(rawValue: try number("type"))
        else { throw .paramInvalid }
        var callees: [ZegoCall.Party] = []
        for callee in listed { callees.append(try Fields.user(callee)) }
        let call = ZegoCall(id: id, caller: try Fields.user(caller), callees: callees, kind: type.kind)
        guard (1...Limits.inviteesPerRequest).contains(callees.count),
            call.extendedData.utf8.count <= Limits.extendedDataBytes
        else { throw .paramInvalid }
        return call
    }

    private static func user(_ value: Any) throws(ZegoError) -> ZegoCall.Party {
        guard let fields = value as? [String: Any] else { throw .paramInvalid }
        let user = ZegoCall.Party(id: try Fields(values: fields).text("id"), name: try name(fields["name"]))
        _ = try userID(user.id)
        return user
    }

    /// Returns the name; empty without a name, since the vendor's client may send no name.
    private static func name(_ value: Any?) throws(ZegoError) -> String {
        guard let value, !(value is NSNull), !isNil(value) else { return "" }
        guard let name = value as? String else { throw .paramInvalid }
        return name
    }

    /// Whether the value is an empty optional within `Any`.
    private static func isNil(_ value: Any) -> Bool {
        let mirror = Mirror(reflecting: value)
        return mirror.displayStyle == .optional && mirror.children.isEmpty
    }
}
