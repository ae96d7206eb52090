import SignalingProtocol

/// A timeline as text: one step a line, with a bar as long as the time before the step, so that long waits stand out.
struct TimelineText {
    private let success: Response.Success

    init(_ success: Response.Success) { self.success = success }

    private static let barWidth = 20

    var text: String {
        let call = success.call
        var lines = ["call \(call.callID), \(call.mode.rawValue)" + (call.media.map { ", \($0)" } ?? "")]
        lines.append("  \(call.inviter) calls " + call.members.dropFirst().map(\.userID.string).joined(separator: ", "))
        lines.append(
            "  \(call.state.rawValue)" + (call.endReason.map { ": \($0.rawValue)" } ?? "") + "; "
                + call.members.map { "\($0.userID) \($0.state.rawValue)" }.joined(separator: ", "))
        let timeline = success.timeline ?? Timeline(entries: [])
        guard !timeline.entries.isEmpty else {
            lines.append("no timeline is kept of this call: see bellwire serve --trace")
            return lines.map(PhoneTimeline.printable).joined(separator: "\n")
        }
        if timeline.omitted > 0 {
            lines.append("(\(timeline.omitted) older steps were dropped)")
        } else {
            lines += call.members.dropFirst().compactMap { Self.silence(of: $0.userID, timeline.entries) }
        }
        lines.append("")
        lines += steps(timeline.entries, since: call.createdAt)
        for report in success.reports {
            let times = report.milestones.sorted { $0.milliseconds < $1.milliseconds }
                .map { "\($0.name) \($0.milliseconds) ms" }
            lines.append("\(report.device) reported: " + times.joined(separator: ", "))
        }
        return lines.map(PhoneTimeline.printable).joined(separator: "\n")
    }

    /// Returns the reason why an invitation rang no device of the user: no device was online, or the online devices
    /// sent no ack and no request. Returns nil for a user who was not invited, or whose device has reacted, perhaps by
    /// a ring check after a push.
    private static func silence(of user: UserID, _ entries: [TraceEntry]) -> String? {
        var sends = 0
        var mostOnline = 0
        for entry in entries {
            switch entry.step {
            case .send(.invited, to: user, device: _, revision: _, let online, isResend: _):
                sends += 1
                mostOnline = max(mostOnline, online)
            case .ack(let device, _) where device.userID == user: return nil
            case .request(let device, _, _) where device.userID == user: return nil
            case .transition(revision: _, state: _, endReason: _, actor: _, let changes)
            where changes.contains { $0.userID == user && [.received, .accepted, .rejected].contains($0.state) }:
                return nil
            default: break
            }
        }
        guard sends > 0 else { return nil }
        guard mostOnline > 0 else { return "  \(user): no device was online" }
        let devices = mostOnline == 1 ? "1 device was" : "\(mostOnline) devices were"
        return "  \(user): \(devices) online, the invitation was sent \(sends == 1 ? "once" : "\(sends) times"), "
            + "and no ack came: a frozen app, or a client without acks"
    }

    private func steps(_ entries: [TraceEntry], since start: Int64) -> [String] {
        let gaps = zip(entries, [entries[0]] + entries).map { $0.time - $1.time }
        let longest = max(gaps.max() ?? 0, 1)
        let names = entries.map(\.coordinator)
        let width = names.map(\.count).max() ?? 0
        return zip(entries, gaps).map { entry, gap in
            let bar = String(repeating: "█", count: Int(gap * Int64(Self.barWidth) / longest))
            let time = Self.rightAligned("\(entry.time - start) ms", 12)
            let after = Self.rightAligned("+\(gap)", 8)
            return "\(time) \(after) \(bar.padded(to: Self.barWidth))  \(entry.coordinator.padded(to: width))  "
                + entry.step.story
        }
    }

    private static func rightAligned(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}

extension TraceEntry.Step {
    fileprivate var story: String {
        switch self {
        case .request(let device, let type, let outcome): return "\(device) asks \(type): \(outcome)"
        case .transition(let revision, let state, let endReason, let actor, let changes):
            let members = changes.map { change in
                "\(change.userID) \(change.state.rawValue)" + (change.reason.map { " (\($0))" } ?? "")
            }
            return "revision \(revision): \(state.rawValue)" + (endReason.map { " (\($0.rawValue))" } ?? "")
                + (actor.map { ", by \($0)" } ?? ", by a timer")
                + (members.isEmpty ? "" : ": " + members.joined(separator: ", "))
        case .send(let event, let user, let device, let revision, let online, let isResend):
            let target = device.map { "\(user)/\($0)" } ?? "all devices of \(user)"
            return "  → \(target): \(event.rawValue), revision \(revision)" + (isResend ? ", again" : "")
                + (online == 0 ? "   NO DEVICE ONLINE" : "")
        case .ack(let device, let revision): return "  ← \(device) acks revision \(revision)"
        case .presence(let device, let state): return "\(device) : \(state)"
        case .deadline(let late): return "a deadline is served, \(late) ms late"
        case .media(let device, let server): return "  → \(device): a token for its room at \(server)"
        case .push(let push):
            let answer = [push.status.map(String.init), push.reason, push.took.map { "\($0) ms" }].compactMap(\.self)
            return "  ⇢ \(push.device): \(push.kind.rawValue) by \(push.platform.rawValue), \(push.outcome.rawValue)"
                + (answer.isEmpty ? "" : " (\(answer.joined(separator: ", ")))")
        }
    }
}
