import SignalingProtocol

/// The bounds of `EventID`.
enum EventIDBounds {
    /// The bound of an id in bytes; below, the bound of its calls. Further calls are reported again.
    static let bytes = 1_024
    static let calls = 16
}

/// The `id:` of a server-sent event: the calls that the stream has reported, as far as they are live or ended a moment
/// ago. A client that reopens a stream sends this id as `Last-Event-ID`, and the stream continues there on any gateway,
/// because the id contains all facts that a gateway needs.
///
/// The form is `1;callID.revision.time.invitation.states;…`: numbers to the base of 36, a letter for each member's
/// state, and a final `-` for a call that is over. Live calls come first, the latest call before earlier calls.
struct EventID: Equatable {
    private static let version = "1"

    let text: String

    /// - Parameter now: the time by the boot clock.
    init(_ calls: [CallID: HeardCall], now: Int64) {
        var text = Self.version
        for (callID, call) in calls.filter({ $0.value.matters(now) }).sorted(by: Self.isFirst).prefix(
            EventIDBounds.calls)
        {
            let part = ";\(callID).\(call.text)"
            guard text.utf8.count + part.utf8.count <= EventIDBounds.bytes else { continue }
            text += part
        }
        self.text = text
    }

    private static func isFirst(_ one: (key: CallID, value: HeardCall), _ other: (key: CallID, value: HeardCall))
        -> Bool
    {
        if one.value.goesOn != other.value.goesOn { return one.value.goesOn }
        return (one.value.time, one.key.string) > (other.value.time, other.key.string)
    }

    /// Returns the calls of an id; nil when the text is no such id, so that its client has received no event of these
    /// streams.
    /// - Parameter now: the time by the boot clock.
    static func calls(_ text: String, now: Int64) -> [CallID: HeardCall]? {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false)
        guard text.utf8.count <= EventIDBounds.bytes, parts[0] == version, parts.count <= 1 + EventIDBounds.calls else {
            return nil
        }
        var calls: [CallID: HeardCall] = [:]
        for part in parts.dropFirst() {
            let fields = part.split(separator: ".", maxSplits: 1)
            guard fields.count == 2, let callID = CallID(String(fields[0])),
                let call = HeardCall(String(fields[1]), now: now)
            else { return nil }
            calls[callID] = call
        }
        return calls
    }
}

extension HeardCall {
    fileprivate var text: String {
        let letters = String(states.map(\.letter)) + (goesOn ? "" : Self.over)
        return [base36(Int64(revision)), base36(time), invitation.map(base36) ?? "", letters].joined(separator: ".")
    }

    fileprivate init?(_ text: String, now: Int64) {
        let fields = text.split(separator: ".", omittingEmptySubsequences: false)
        guard fields.count == 4, let revision = Int(fields[0], radix: 36), revision >= 0,
            let time = Int64(fields[1], radix: 36)
        else { return nil }
        let invitation = Int64(fields[2], radix: 36)
        let goesOn = !fields[3].hasSuffix(Self.over)
        let letters = goesOn ? fields[3] : fields[3].dropLast()
        let states = letters.compactMap(MemberState.init(letter:))
        guard invitation != nil || fields[2].isEmpty, states.count == letters.count else { return nil }
        self.init(revision: revision, time: time, invitation: invitation, states: states, goesOn: goesOn, now: now)
    }

    private static let over = "-"

    private func base36(_ number: Int64) -> String { String(number, radix: 36) }
}

extension MemberState {
    fileprivate var letter: Character {
        switch self {
        case .inviting: "i"
        case .notYetReceived: "n"
        case .received: "r"
        case .accepted: "a"
        case .rejected: "d"
        case .cancelled: "c"
        case .timeout: "t"
        case .quit: "q"
        }
    }

    fileprivate init?(letter: Character) {
        guard let state = Self.allCases.first(where: { $0.letter == letter }) else { return nil }
        self = state
    }
}
