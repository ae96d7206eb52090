import CallCore
import SignalingProtocol
import Testing

/// A line of a table: a situation, and the outcome of each request in the situation.
struct TableRow: Sendable, CustomTestStringConvertible {
    static let requests = ["accept", "reject", "cancel", "add", "join", "quit", "end", "get"]

    /// The words before the outcomes: mode, call, member and so on.
    let situation: [String]
    /// The outcomes by request: `ok`, or the code of the error.
    let outcomes: [String: String]

    var testDescription: String { situation.joined(separator: " ") }

    /// Reads a table as it is written for people: a heading, then a line for each situation.
    static func read(_ table: String) -> [TableRow] {
        let lines = table.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        let width = lines[0].count - requests.count
        precondition(Array(lines[0][width...]) == requests, "the heading names every request, in order")
        return lines.dropFirst().map { words in
            precondition(words.count == width + requests.count, "a line has one word per column: \(words)")
            let outcomes = Dictionary(uniqueKeysWithValues: zip(requests, words[width...]))
            return TableRow(situation: Array(words[..<width]), outcomes: outcomes)
        }
    }
}

extension TableRow {
    /// Makes each request in a fresh copy of the situation, and compares its outcome with the table.
    func check(
        _ scene: Scene, by user: UserID, on device: DeviceID = phone, cancelling invitees: [UserID]? = nil,
        blamed: UserID? = nil
    ) {
        for name in Self.requests {
            let attempt = scene.copy()
            let body: Request.Body =
                switch name {
                case "accept": .accept
                case "reject": .reject
                case "cancel": .cancel(invitees)
                case "add": .add([dave])
                case "join": .join
                case "quit": .quit
                case "end": .end
                default: .get
                }
            let error = attempt.refusal(body, by: user, on: device)
            let outcome = error?.code.rawValue ?? "ok"
            #expect(outcome == outcomes[name], "\(testDescription): \(name)")
            if let error {
                checkError(error, in: scene, of: name == "cancel" ? blamed ?? user : user)
            } else {
                checkEffect(of: name, by: user, on: device, before: scene.call, after: attempt.call)
            }
        }
    }

    /// `invalidState` and `callEnded` come "with the `"state"` of the member in question".
    private func checkError(_ error: SignalingError, in scene: Scene, of user: UserID) {
        switch error.code {
        case .invalidState:
            #expect(error.state == scene.state(user)?.rawValue, "\(testDescription): \(error)")
        case .callEnded, .answeredElsewhere:
            #expect(error.state != nil, "\(testDescription): \(error)")
        default:
            #expect(error.state == nil, "\(testDescription): \(error)")
        }
    }

    private func checkEffect(of request: String, by user: UserID, on device: DeviceID, before: Call, after: Call) {
        if request == "get" || request == "join" && before.isInCall(user, on: device) {
            #expect(after == before, "\(testDescription): \(request) changes nothing")
            return
        }
        #expect(after.revision == before.revision + 1, "\(testDescription): \(request)")
        let state = after.member(user)?.state
        switch request {
        case "accept", "join":
            #expect(state == .accepted && after.member(user)?.device == device, "\(testDescription): \(request)")
        case "reject": #expect(state == .rejected && after.member(user)?.device == device, "\(testDescription)")
        case "quit": #expect(state == .quit, "\(testDescription)")
        case "end": #expect(after.endReason == .hangup && after.endedBy == user, "\(testDescription)")
        case "add": #expect(after.member(dave)?.state == .inviting, "\(testDescription)")
        default: #expect(after.members.contains { $0.state == .cancelled }, "\(testDescription): \(request)")
        }
    }
}

extension Call {
    func isInCall(_ user: UserID, on device: DeviceID) -> Bool {
        member(user)?.state == .accepted && member(user)?.device == device
    }
}
