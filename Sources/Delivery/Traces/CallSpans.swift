import CallCore
import SignalingProtocol

/// The spans of an ended call, made of its record and its timeline (docs/operations.md, Traces): the call, each
/// invitation, and each request. A step without a duration is an event of the invitation or of the call. Users' texts
/// and data are in no span; the ids of users and devices are.
struct CallSpans {
    private struct Invitation {
        let user: UserID
        let coordinator: String
        let start: Milliseconds
        let parent: Span.Place
        var isAcked = false
        var events: [Span.Event] = []
    }

    private let call: Call
    private let clock: SpanClock
    private let ids: SpanIDs
    private let root: Span.Place
    private let rootParentID: String?
    private var rootStart: Int64
    private var rootEnd: Int64
    private var rootEvents: [Span.Event] = []
    /// The invitations that have not ended, and the number of invitations of each user.
    private var open: [UserID: Invitation] = [:]
    private var invitations: [UserID: Int] = [:]
    /// The parents of the invitations that a user's last request makes.
    private var inviting: [UserID: Span.Place] = [:]
    private var requests = 0
    private var spans: [Span] = []

    /// Returns the spans, the call first.
    static func spans(of call: Call, _ timeline: Timeline, _ clock: SpanClock) -> [Span] {
        var making = CallSpans(call, timeline, clock)
        for entry in timeline.entries { making.add(entry) }
        return making.finished(timeline)
    }

    private init(_ call: Call, _ timeline: Timeline, _ clock: SpanClock) {
        self.call = call
        self.clock = clock
        ids = SpanIDs(call)
        let parent = timeline.entries.lazy.compactMap { $0.parentOfInvite(by: call.origin.device) }.first
        root = Span.Place(traceID: parent?.traceID ?? ids.traceID, spanID: ids.spanID("call"))
        rootParentID = parent?.spanID
        rootStart = clock.nanoseconds(call.createdAt)
        rootEnd = clock.nanoseconds(call.endedAt ?? call.updatedAt)
    }

    private mutating func add(_ entry: TraceEntry) {
        switch entry.step {
        case .request(let device, let type, let outcome): addRequest(entry, device, type, outcome)
        case .transition(_, _, _, _, let changes):
            for change in changes { apply(change, entry) }
        case .send(let event, let user, let device, _, let online, let isResend):
            let attributes: [Span.Attribute?] = [
                text("bellwire.event", event.rawValue), text("device.id", device?.string),
                number("bellwire.devices.online", Int64(online)),
            ]
            note(isResend ? "resend" : "send", of: user, attributes, entry)
        case .ack(let device, _):
            open[device.userID]?.isAcked = true
            note("ack", of: device.userID, [text("device.id", device.deviceID.string)], entry)
        case .presence(let device, let state):
            note(state, of: device.userID, [text("device.id", device.deviceID.string)], entry)
        case .deadline(let late): noteInCall("deadline", [number("bellwire.late_ms", late)], entry)
        case .push(let push): note("push", of: push.device.userID, push.attributes, entry)
        case .media(let device, let server):
            let attributes: [Span.Attribute?] = [
                text("device.id", device.deviceID.string), text("bellwire.media.server", server),
            ]
            note("media", of: device.userID, attributes, entry)
        }
    }

    // MARK: Requests

    private mutating func addRequest(
        _ entry: TraceEntry, _ device: DeviceAddress, _ type: String, _ outcome: String
    ) {
        requests += 1
        let isInvite = type == "call.invite" && device == call.origin.device
        // The parent of the invite is the parent of the call, and the call the parent of the invite's span.
        let own = isInvite ? nil : entry.origin?.parent.map { Span.Place(traceID: $0.traceID, spanID: $0.spanID) }
        let parent = own ?? root
        let start = clock.nanoseconds(entry.time, plus: -(entry.origin?.waited ?? 0))
        let end = clock.nanoseconds(entry.time, plus: entry.origin?.served ?? 0)
        if isInvite { rootStart = min(rootStart, start) }
        if entry.time <= call.endedAt ?? .max { rootEnd = max(rootEnd, end) }
        if outcome == "ok", type == "call.invite" || type == "call.add" { inviting[device.userID] = parent }
        var span = Span(
            place: Span.Place(
                traceID: parent.traceID, spanID: ids.spanID("request \(requests) \(entry.time) \(device) \(type)")),
            parentID: parent.spanID, name: type, kind: .server, start: start, end: end,
            coordinator: entry.coordinator,
            attributes: identified([
                text("user.id", device.userID.string), text("device.id", device.deviceID.string),
                text("bellwire.outcome", outcome),
            ]))
        if parent.traceID != root.traceID { span.link = root }
        if outcome != "ok" { span.failure = outcome }
        spans.append(span)
    }

    // MARK: Invitations

    private mutating func apply(_ change: MemberChange, _ entry: TraceEntry) {
        let user = change.userID
        guard !change.state.isPending else {
            if open[user] == nil { open[user] = invitation(of: user, from: entry.time, entry) }
            if change.state != .inviting { note(change.state.rawValue, of: user, [], entry) }
            return
        }
        if let ended = open.removeValue(forKey: user) {
            return end(ended, change.state.rawValue, change.device, at: entry.time)
        }
        // The beginning of a long timeline may be lost, and an invitee may answer at once, as a user in another call.
        guard let member = call.entry(user), member.invitedBy != nil, invitations[user] == nil, change.state != .quit
        else { return noteInCall(change.state.rawValue, [text("user.id", user.string)], entry) }
        let start = min(call.invitedAt(member) ?? entry.time, entry.time)
        end(invitation(of: user, from: start, entry), change.state.rawValue, change.device, at: entry.time)
    }

    private func invitation(of user: UserID, from start: Milliseconds, _ entry: TraceEntry) -> Invitation {
        let inviter = call.entry(user)?.invitedBy ?? call.inviter
        return Invitation(
            user: user, coordinator: entry.coordinator, start: start, parent: inviting[inviter] ?? root)
    }

    private mutating func end(
        _ ended: Invitation, _ outcome: String, _ device: DeviceID?, at time: Milliseconds
    ) {
        let number = invitations[ended.user, default: 0] + 1
        invitations[ended.user] = number
        var span = Span(
            place: Span.Place(
                traceID: ended.parent.traceID, spanID: ids.spanID("invitation \(number) \(ended.user.string)")),
            parentID: ended.parent.spanID, name: "invitation", kind: .internal,
            start: clock.nanoseconds(ended.start), end: clock.nanoseconds(time), coordinator: ended.coordinator,
            attributes: identified([
                text("user.id", ended.user.string), text("device.id", device?.string),
                text("bellwire.outcome", outcome), flag("bellwire.acked", ended.isAcked),
            ]))
        span.events = ended.events
        if ended.parent.traceID != root.traceID { span.link = root }
        if outcome == MemberState.timeout.rawValue, !ended.isAcked { span.failure = "no device has acknowledged" }
        spans.append(span)
    }

    // MARK: Events

    /// Adds an event to the user's open invitation, or else to the call.
    private mutating func note(
        _ name: String, of user: UserID, _ attributes: [Span.Attribute?], _ entry: TraceEntry
    ) {
        guard open[user] != nil else {
            return noteInCall(name, [text("user.id", user.string)] + attributes, entry)
        }
        let event = event(name, attributes, entry)
        open[user]?.events.append(event)
    }

    private mutating func noteInCall(_ name: String, _ attributes: [Span.Attribute?], _ entry: TraceEntry) {
        let event = event(name, attributes, entry)
        rootEvents.append(event)
    }

    private func event(_ name: String, _ attributes: [Span.Attribute?], _ entry: TraceEntry) -> Span.Event {
        // An event of an invitation may be the work of another coordinator, or of a process that pushes.
        let process = text("bellwire.process", entry.coordinator)
        return Span.Event(
            time: clock.nanoseconds(entry.time), name: name, attributes: (attributes + [process]).compactMap(\.self))
    }

    // MARK: The call

    /// Returns the attributes of a span that have a value, and the call's id, by which the spans are found.
    private func identified(_ attributes: [Span.Attribute?]) -> [Span.Attribute] {
        ([text("bellwire.call.id", call.callID.string)] + attributes).compactMap(\.self)
    }

    private mutating func finished(_ timeline: Timeline) -> [Span] {
        for invitation in open.values.sorted(by: { $0.user < $1.user }) {
            let state = call.entry(invitation.user)?.state
            let outcome = state.map { $0.isPending ? MemberState.cancelled.rawValue : $0.rawValue }
            end(invitation, outcome ?? "unknown", nil, at: max(invitation.start, call.endedAt ?? call.updatedAt))
        }
        var span = Span(
            place: root, parentID: rootParentID, name: "call", kind: .internal, start: rootStart,
            end: max(rootStart, rootEnd), coordinator: timeline.entries.first?.coordinator ?? "",
            attributes: identified([
                text("user.id", call.inviter.string),
                text("bellwire.call.mode", call.mode.rawValue),
                text("bellwire.call.end_reason", call.endReason?.rawValue),
                number("bellwire.call.members", Int64(call.members.count)),
                timeline.omitted > 0 ? number("bellwire.call.omitted", Int64(timeline.omitted)) : nil,
            ]))
        span.events = rootEvents
        switch call.endReason {
        case .callerLost, .heartbeatTimeout: span.failure = call.endReason?.rawValue
        case .answered, .rejected, .busy, .timeout, .cancelled, .hangup, .quit, nil: break
        }
        return [span] + spans
    }
}

extension TraceEntry {
    /// The parent that the device has named in an invite of this entry; nil for any other entry.
    fileprivate func parentOfInvite(by device: DeviceAddress) -> TraceParent? {
        guard case .request(let asking, let type, let outcome) = step, asking == device, type == "call.invite",
            outcome == "ok"
        else { return nil }
        return origin?.parent
    }
}

extension PushStep {
    /// The provider's reason is a word of the provider, not of a user.
    fileprivate var attributes: [Span.Attribute?] {
        [
            text("device.id", device.deviceID.string),
            text("bellwire.push.platform", platform.rawValue),
            text("bellwire.push.kind", kind.rawValue), text("bellwire.outcome", outcome.rawValue),
            number("http.response.status_code", status.map(Int64.init)),
            text("bellwire.push.reason", reason), number("bellwire.push.took_ms", took),
        ]
    }
}

// Returns an attribute, or nil without a value.

private func text(_ key: StaticString, _ text: String?) -> Span.Attribute? {
    text.map { Span.Attribute(key, .text($0)) }
}

private func number(_ key: StaticString, _ number: Int64?) -> Span.Attribute? {
    number.map { Span.Attribute(key, .number($0)) }
}

private func flag(_ key: StaticString, _ flag: Bool) -> Span.Attribute? { Span.Attribute(key, .flag(flag)) }
