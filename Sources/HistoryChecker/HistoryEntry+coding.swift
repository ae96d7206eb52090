import SignalingProtocol

/// The reason why a line is not an entry of a history.
package struct HistoryLineError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
}

extension HistoryEntry {
    /// Reads one line of a history file: a JSON object with `at`, `kind`, and the keys of that kind. The value of
    /// `payload` is a message as text, exactly as the message went over the wire.
    ///
    /// Returns nil for a message that this version does not know; a device ignores such a message too.
    package static func decode(line: [UInt8]) throws(HistoryLineError) -> HistoryEntry? {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONParser.parse(line)
        } catch {
            throw HistoryLineError(description: "not JSON: \(error)")
        }
        guard let json = value.object, let at = json["at"]?.integer, let kind = json["kind"]?.string else {
            throw HistoryLineError(description: "no object with at and kind")
        }
        return try content(kind, json).map { HistoryEntry(at: at, $0) }
    }

    private static func content(_ kind: String, _ json: JSONObject) throws(HistoryLineError) -> Content? {
        switch kind {
        case "began":
            return .began(coordinators: (json["coordinators"]?.array ?? []).compactMap(\.string))
        case "connected":
            return .connected(try device(json), session: try text(json, "session"))
        case "disconnected":
            return .disconnected(try device(json))
        case "presented":
            guard case .success(let message) = PresenceMessage.decode(try payload(json)) else {
                throw HistoryLineError(description: "payload: no presence message")
            }
            return .presented(try device(json), message)
        case "sent":
            guard case .success(let message) = UpMessage.decode(try payload(json)) else {
                throw HistoryLineError(description: "payload: no message that a device may send")
            }
            return .sent(try device(json), message)
        case "received":
            let device = try device(json)
            return DownMessage.decode(try payload(json)).map { .received(device, $0) }
        case "lost":
            guard let direction = Direction(rawValue: try text(json, "direction")) else {
                throw HistoryLineError(description: "direction: up or down")
            }
            return .lost(try device(json), direction)
        case "faultBegan":
            guard let fault = Fault(rawValue: try text(json, "fault")) else {
                throw HistoryLineError(description: "fault: \(Fault.allCases.map(\.rawValue))")
            }
            return .faultBegan(target: try text(json, "target"), fault)
        case "faultEnded":
            return .faultEnded(target: try text(json, "target"))
        case "storeWentBack":
            guard let since = json["since"]?.integer else { throw HistoryLineError(description: "since is missing") }
            return .storeWentBack(since: since)
        case "stalled":
            guard let since = json["since"]?.integer else { throw HistoryLineError(description: "since is missing") }
            return .stalled(since: since)
        case "settled":
            return .settled
        default:
            throw HistoryLineError(description: "kind: \(kind) is not known")
        }
    }

    private static func text(_ json: JSONObject, _ key: String) throws(HistoryLineError) -> String {
        guard let text = json[key]?.string else { throw HistoryLineError(description: "\(key) is missing") }
        return text
    }

    private static func payload(_ json: JSONObject) throws(HistoryLineError) -> [UInt8] {
        Array(try text(json, "payload").utf8)
    }

    /// Reads `user/device`. A user id may contain a slash, a device id may not.
    private static func device(_ json: JSONObject) throws(HistoryLineError) -> DeviceAddress {
        let name = try text(json, "device")
        guard let slash = name.lastIndex(of: "/"), let user = UserID(String(name[..<slash])),
            let device = DeviceID(String(name[name.index(after: slash)...]))
        else { throw HistoryLineError(description: "device: \(name) is not user/device") }
        return DeviceAddress(userID: user, deviceID: device)
    }
}
