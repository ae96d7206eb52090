/// The timeline of a call (docs/protocol.md, section 6).
public struct Timeline: Equatable, Sendable {
    /// The entries in the order of their times.
    public var entries: [TraceEntry]
    /// The number of older entries that were dropped.
    public var omitted: Int

    public init(entries: [TraceEntry], omitted: Int = 0) {
        self.entries = entries
        self.omitted = omitted
    }
}

/// A step of a call, and the coordinator that did the step.
public struct TraceEntry: Equatable, Sendable {
    /// Milliseconds since the Unix epoch by the service's clock.
    public var time: Int64
    public var coordinator: String
    public var step: Step
    /// The origin of a request, for spans; nil where nobody sends the timeline on, and in responses.
    package var origin: TraceOrigin?

    public init(time: Int64, coordinator: String, step: Step) {
        self.time = time
        self.coordinator = coordinator
        self.step = step
    }

    package init(time: Int64, coordinator: String, step: Step, origin: TraceOrigin?) {
        self.init(time: time, coordinator: coordinator, step: step)
        self.origin = origin
    }

    public enum Step: Equatable, Sendable {
        /// A coordinator decided a request; `outcome` is `ok` or the error's code.
        case request(DeviceAddress, type: String, outcome: String)
        /// The call changed; `actor` is nil when a deadline caused the change.
        case transition(
            revision: Int, state: BellwireCallState, endReason: EndReason?, actor: UserID?, changes: [MemberChange])
        /// A coordinator published an event to a single device or, when `device` is nil, to all devices of the user.
        /// `online`: the number of the user's online devices.
        case send(EventName, to: UserID, device: DeviceID?, revision: Int, online: Int, isResend: Bool)
        case ack(DeviceAddress, revision: Int)
        /// A member's device went online or offline.
        case presence(DeviceAddress, state: String)
        /// A coordinator served a deadline; `late` is the delay in milliseconds.
        case deadline(late: Int64)
        /// The service attempted a push, or gave the push up. Only the pushed user and backends see this step (section
        /// 7).
        case push(PushStep)
        /// A device got a media session of this media server.
        case media(DeviceAddress, server: String)
    }
}

extension TraceEntry {
    /// The stored form of the entry: the form of the wire without the fields `at` and `after`, because these depend on
    /// other entries, and with the origin of a request, which is for operators alone.
    package func encoded() -> [UInt8] {
        JSONWriter.object(capacity: 192) { writer in
            write(to: &writer)
            origin?.write(to: &writer)
        }
    }

    /// Nil for an entry that this version does not know.
    package init?(_ bytes: [UInt8]) {
        guard case .object(let json)? = try? JSONParser.parse(bytes) else { return nil }
        self.init(json: json)
    }

    func write(to writer: inout JSONWriter) {
        writer.field("time", time)
        writer.field("coordinator", coordinator)
        switch step {
        case .request(let device, let type, let outcome):
            writer.field("kind", "request")
            writer.field("userID", device.userID.string)
            writer.field("device", device.deviceID.string)
            writer.field("type", type)
            writer.field("outcome", outcome)
        case .transition(let revision, let state, let endReason, let actor, let changes):
            writer.field("kind", "transition")
            writer.field("revision", revision)
            writer.field("state", state.rawValue)
            writer.field("endReason", endReason?.rawValue)
            writer.field("actor", actor?.string)
            writer.array("changes") { writer in
                for change in changes { writer.object { change.write(to: &$0) } }
            }
        case .send(let event, let user, let device, let revision, let online, let isResend):
            writer.field("kind", isResend ? "resend" : "send")
            writer.field("event", event.rawValue)
            writer.field("userID", user.string)
            writer.field("device", device?.string)
            writer.field("revision", revision)
            writer.field("online", online)
        case .ack(let device, let revision):
            writer.field("kind", "ack")
            writer.field("userID", device.userID.string)
            writer.field("device", device.deviceID.string)
            writer.field("revision", revision)
        case .presence(let device, let state):
            writer.field("kind", "presence")
            writer.field("userID", device.userID.string)
            writer.field("device", device.deviceID.string)
            writer.field("state", state)
        case .deadline(let late):
            writer.field("kind", "deadline")
            writer.field("late", late)
        case .push(let push):
            writer.field("kind", "push")
            push.write(to: &writer)
        case .media(let device, let server):
            writer.field("kind", "media")
            writer.field("userID", device.userID.string)
            writer.field("device", device.deviceID.string)
            writer.field("server", server)
        }
    }

    init?(json: JSONObject) {
        guard let time = json["time"]?.integer, let coordinator = json["coordinator"]?.string,
            let step = Step(json: json)
        else { return nil }
        self.init(time: time, coordinator: coordinator, step: step, origin: TraceOrigin(json: json))
    }
}

extension TraceEntry.Step {
    fileprivate init?(json: JSONObject) {
        let user = json["userID"]?.string.flatMap(UserID.init)
        let deviceID = json["device"]?.string.flatMap(DeviceID.init)
        let device = user.flatMap { user in deviceID.map { DeviceAddress(userID: user, deviceID: $0) } }
        let revision = json["revision"]?.integer.map(Int.init)
        switch json["kind"]?.string {
        case "request":
            guard let device, let type = json["type"]?.string, let outcome = json["outcome"]?.string else {
                return nil
            }
            self = .request(device, type: type, outcome: outcome)
        case "transition":
            guard let revision, let state = json["state"]?.string.flatMap(BellwireCallState.init) else { return nil }
            self = .transition(
                revision: revision, state: state, endReason: json["endReason"]?.string.flatMap(EndReason.init),
                actor: json["actor"]?.string.flatMap(UserID.init),
                changes: json["changes"]?.array?.compactMap { $0.object.flatMap(MemberChange.init(json:)) } ?? [])
        case "send", "resend":
            guard let user, let revision, let event = json["event"]?.string.flatMap(EventName.init),
                let online = json["online"]?.integer
            else { return nil }
            self = .send(
                event, to: user, device: deviceID, revision: revision, online: Int(online),
                isResend: json["kind"]?.string == "resend")
        case "ack":
            guard let device, let revision else { return nil }
            self = .ack(device, revision: revision)
        case "presence":
            guard let device, let state = json["state"]?.string else { return nil }
            self = .presence(device, state: state)
        case "deadline":
            guard let late = json["late"]?.integer else { return nil }
            self = .deadline(late: late)
        case "push":
            guard let device, let push = PushStep(device, json) else { return nil }
            self = .push(push)
        case "media":
            guard let device, let server = json["server"]?.string else { return nil }
            self = .media(device, server: server)
        default: return nil
        }
    }
}

extension PushStep {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.field("userID", device.userID.string)
        writer.field("device", device.deviceID.string)
        writer.field("platform", platform.rawValue)
        writer.field("push", kind.rawValue)
        writer.field("outcome", outcome.rawValue)
        writer.field("status", status)
        writer.field("reason", reason)
        writer.field("took", took)
    }

    fileprivate init?(_ device: DeviceAddress, _ json: JSONObject) {
        guard let platform = json["platform"]?.string.flatMap(PushPlatform.init),
            let kind = json["push"]?.string.flatMap(PushKind.init),
            let outcome = json["outcome"]?.string.flatMap(PushOutcome.init)
        else { return nil }
        self.init(
            device: device, platform: platform, kind: kind, outcome: outcome,
            status: json["status"]?.integer.map(Int.init), reason: json["reason"]?.string,
            took: json["took"]?.integer)
    }
}

extension Timeline {
    /// Returns the timeline for a member, without pushes to other users: a member must not learn whether and on which
    /// devices other members were woken.
    package func told(to user: UserID) -> Timeline {
        var told = self
        told.entries.removeAll { entry in
            if case .push(let push) = entry.step { push.device.userID != user } else { false }
        }
        return told
    }

    /// Writes the fields of a response; `start` is the creation time of the call.
    func write(to writer: inout JSONWriter, since start: Int64) {
        writer.array("entries") { writer in
            var before: Int64?
            for entry in entries {
                writer.object { writer in
                    // An overflow is harmless here: no clock shows times that are so far apart.
                    writer.field("at", entry.time &- start)
                    writer.field("after", entry.time &- (before ?? entry.time))
                    entry.write(to: &writer)
                }
                before = entry.time
            }
        }
        if omitted > 0 { writer.field("omitted", omitted) }
    }

    init?(json: JSONObject) {
        guard let entries = json["entries"]?.array else { return nil }
        self.init(
            entries: entries.compactMap { $0.object.flatMap(TraceEntry.init(json:)) },
            omitted: max(0, json["omitted"]?.integer.map(Int.init) ?? 0))
    }
}
