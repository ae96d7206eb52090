import BellwireClient
import SignalingProtocol
import Support

/// Prints the events of a phone: as text with milliseconds since the start, or as JSON for scripts.
struct PhoneTimeline {
    let isJSON: Bool
    let user: UserID
    private let start = SystemClock.boot.milliseconds

    init(_ settings: PhoneSettings) {
        isJSON = settings.isJSON
        user = settings.user
    }

    /// Prints a line. `text` is the line without `--json`; nil prints no line then. `fields` go into the JSON object.
    func line(_ event: String, _ text: String?, _ fields: (inout JSONWriter) -> Void = { _ in }) {
        let time = SystemClock.boot.milliseconds - start
        if isJSON {
            let bytes = JSONWriter.object { writer in
                writer.field("event", event)
                writer.field("time", time)
                fields(&writer)
            }
            writeOutput(String(decoding: bytes, as: UTF8.self))
        } else if let text {
            let number = String(time)
            let margin = String(repeating: " ", count: max(0, 8 - number.count))
            writeOutput("\(margin)\(number) ms  \(Self.printable(text))")
        }
    }

    /// Prints a hint to the user at the terminal.
    func note(_ text: String) {
        if !isJSON { writeOutput(String(repeating: " ", count: 13) + Self.printable(text)) }
    }

    /// Replaces control characters, since text of other users must not control the terminal.
    static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar in
                    let isControl = scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
                    return isControl ? "\u{FFFD}" : scalar
                }))
    }

    func name(_ member: UserID) -> String { member == user ? "you" : member.string }
}

// MARK: Events of a call

extension PhoneTimeline {
    func event(_ event: Event) {
        guard isJSON else { return }
        line(event.name.rawValue, nil) { writer in
            writer.field("callID", event.callID.string)
            writer.field("revision", event.revision)
            writer.field("at", event.time)
            writer.field("actor", event.actor?.string)
            writer.field("expiresIn", event.expiresIn)
            if event.missed { writer.field("missed", true) }
            writer.array("changes") { writer in
                for change in event.changes {
                    writer.object { writer in
                        writer.field("userID", change.userID.string)
                        writer.field("state", change.state.rawValue)
                        writer.field("device", change.device?.string)
                        writer.field("reason", change.reason)
                        writer.field("extendedData", change.extendedData)
                    }
                }
            }
            writer.object("call") { event.call.write(to: &$0) }
        }
    }

    func call(_ event: String, _ text: String?, _ call: CallSnapshot) {
        line(event, text) { writer in
            writer.field("callID", call.callID.string)
            writer.object("call") { call.write(to: &$0) }
        }
    }

    func response(_ request: String, _ outcome: Result<Response.Success, SignalingError>) {
        switch outcome {
        case .success(let success): responded(request, success)
        case .failure(let error):
            line("response", "\(request) failed: \(error.message) (\(error.code))") { writer in
                writer.field("request", request)
                writer.field("ok", false)
                error.write(to: &writer)
            }
        }
    }

    private func responded(_ request: String, _ success: Response.Success) {
        line("response", nil) { writer in
            writer.field("request", request)
            writer.field("ok", true)
            writer.field("callID", success.call.callID.string)
            if success.merged { writer.field("merged", true) }
            if let offline = success.offline {
                writer.array("offline") { writer in
                    for user in offline { writer.string(user.string) }
                }
            }
            writer.array("errors") { writer in
                for error in success.errors {
                    writer.object { writer in
                        writer.field("userID", error.userID.string)
                        writer.field("code", error.code.rawValue)
                    }
                }
            }
            writer.object("call") { success.call.write(to: &$0) }
        }
        guard !isJSON else { return }
        if success.merged { line("response", "\(success.call.inviter) was calling you: one call now") }
        for user in success.offline ?? [] { line("response", "\(user) is offline, and rings when online in time") }
        for error in success.errors { line("response", "\(error.userID): \(error.code)") }
    }

    /// Prints the difference between two states of a call, except with `--json`.
    func changes(from old: CallSnapshot?, to new: CallSnapshot) {
        guard !isJSON else { return }
        for member in new.members {
            let before = old?.member(member.userID)
            guard before?.state != member.state || before?.device != member.device else { continue }
            // The line for the ringing of this phone was printed already.
            if member.userID == user && member.state == .received { continue }
            if old == nil && (member.userID == new.inviter || member.state == .inviting) { continue }
            line("", "\(name(member.userID)): \(describe(member, isNew: before == nil))")
        }
        if new.state == .ended, old?.state != .ended {
            let by = new.endedBy.map { " by \(name($0))" } ?? ""
            line("", "the call is over: \(new.endReason?.rawValue ?? "ended")\(by)")
        }
    }

    private func describe(_ member: MemberSnapshot, isNew: Bool) -> String {
        let reason = member.reason.flatMap { $0 == member.state.rawValue ? nil : " (\($0))" } ?? ""
        let data = member.extendedData.map { ", says: \($0)" } ?? ""
        switch member.state {
        case .inviting: return isNew ? "added" : "invited again"
        case .notYetReceived: return "not reached yet"
        case .received: return "ringing"
        case .accepted: return "accepted" + (member.device.map { " on \($0)" } ?? "") + data
        case .rejected: return "rejected\(reason)\(data)"
        case .cancelled: return "cancelled\(reason)"
        case .timeout: return "did not answer in time"
        case .quit: return "left\(reason)\(data)"
        }
    }
}
