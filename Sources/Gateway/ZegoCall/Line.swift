import SignalingProtocol
import ZegoCallProtocol

/// A device whose user hears over HTTP: its streams here, whether it is online, and what they have been told. It is all of a device that
/// `BellwireClient` would be, but for what its app does by itself: heartbeats.
struct Line {
    enum Standing {
        /// There is no broker, or it has not answered these filters yet.
        case away(waitingFor: Set<String>)
        /// Presence was published so many times, and is again.
        case announcing(times: Int, next: Int64)
        /// Until it is to be renewed.
        case online(next: Int64)
    }

    struct Stream {
        let opened: StreamDesk.Opened
        /// When a sign of life is due.
        var nextSign: Int64
        /// What it has been told. Each stream knows for itself: another one of the device may be dead, and nobody has noticed yet.
        var calls: [CallID: HeardCall]
        /// That of it which the client's host has acknowledged. The rest may be lost with the connection.
        var arrived: [CallID: HeardCall]
        /// The id that was sent last.
        var lastID: EventID

        /// `calls`: what the client knows that opens it.
        init(_ opened: StreamDesk.Opened, _ calls: [CallID: HeardCall], now: Int64) {
            self.opened = opened
            nextSign = now + Line.sign
            self.calls = calls
            arrived = calls
            lastID = EventID(calls, now: now)
        }
    }

    let device: DeviceAddress
    var standing: Standing
    var session = ""
    /// Of the session that this gateway has announced, and that may still stand.
    var isAnnounced = false
    var streams: [Int: Stream] = [:]
    /// When the service is asked once more for what was missed, in a session of its own.
    var nextQuestion: Int64?
    /// When an event was acked last.
    var lastAck: Int64?
    /// An ack of the session before may be counted for this one.
    var mayBeMistaken = false

    init(_ device: DeviceAddress) {
        self.device = device
        standing = .away(waitingFor: [])
    }

    /// Calls of which it is remembered what a stream was told. Those that do not ring give way.
    static let mostCalls = 64
    /// Milliseconds between two signs of life.
    static let sign: Int64 = 15_000
    /// Milliseconds for which the service tells of a call that is over.
    static let afterTheEnd: Int64 = 60_000
}

/// What a stream has been told of a call. What the user itself does, at whatever gateway, brings no event.
struct HeardCall: Equatable {
    private(set) var revision = 0
    private(set) var time: Int64 = 0
    /// The invitation that was told, by when it expires for the service: a user may be invited again.
    private(set) var invitation: Int64?
    /// By the boot clock, unless it is known that it does not ring.
    private var ringsUntil: Int64?
    /// Of the members, in the order of the call.
    private(set) var states: [MemberState] = []
    /// By the boot clock: since when it is known that the user is neither rung nor in the call.
    private var overSince: Int64?

    init() {}

    /// As an id has it.
    init(revision: Int, time: Int64, invitation: Int64?, states: [MemberState], goesOn: Bool, now: Int64) {
        (self.revision, self.time, self.invitation, self.states) = (revision, time, invitation, states)
        overSince = goesOn ? nil : now
        ringsUntil = invitation.map { _ in now + Int64(ZegoCall.timeout) * 1_000 }
    }

    /// The user has made the call: the client knows that by its answer. Of what became of it the stream is still to be told.
    init(madeAs call: CallSnapshot) {
        (revision, time) = (1, call.createdAt)
        states = call.members.map { $0.userID == call.inviter ? .accepted : .inviting }
    }

    /// The user is rung or in the call, as far as the stream has heard.
    var goesOn: Bool { overSince == nil }

    /// The service may still tell of it.
    func matters(_ now: Int64) -> Bool { overSince.map { now < $0 + Line.afterTheEnd } ?? true }

    func mayRing(_ now: Int64) -> Bool { ringsUntil.map { now < $0 } ?? false }

    /// Also what a store that lost writes gives a second time (docs/protocol.md, section 5).
    func isNews(_ event: Event, to user: UserID) -> Bool {
        if event.revision > revision || event.time > time { return true }
        return event.name == .invited && event.revision == revision && invitation != Self.invitation(event, user)
    }

    private static func invitation(_ event: Event, _ user: UserID) -> Int64 {
        event.call.member(user)?.expiresAt ?? 0
    }

    /// By the user's own doing, of which no event tells.
    mutating func over(_ now: Int64) { overSince = overSince ?? now }

    /// What is to be told of the event, which is news.
    mutating func take(_ event: Event, as user: UserID, now: Int64) -> [ZegoNotification] {
        let known = self
        (revision, time) = (event.revision, event.time)
        let changes = event.changes.filter { known.state(of: $0.userID, in: event.call) != $0.state }
        states = event.call.members.map(\.state)
        let own = event.call.state == .ended ? nil : event.call.member(user)?.state
        let isRinging = own?.isPending ?? false
        let isOver = event.name.isOver || !(own?.isLive ?? false)
        overSince = isOver ? overSince ?? now : nil
        ringsUntil = isRinging ? now + Int64(event.expiresIn ?? ZegoCall.timeout * 1_000) : nil
        if event.name == .invited { invitation = Self.invitation(event, user) } else if !isRinging { invitation = nil }
        switch event.name {
        case .invited: return known.invitation == invitation ? [] : [.invited(ZegoCall(event.call), to: user)]
        case .timeout, .created: return []
        case .cancelled, .handledElsewhere:
            return known.invitation == nil ? [] : [.canceled(ZegoCall(event.call), to: user)]
        case .userStateChanged, .ended:
            return ZegoNotification.told(of: event.call, changes).filter { $0.to == user && $0.path != .invited }
        }
    }

    private func state(of user: UserID, in call: CallSnapshot) -> MemberState? {
        guard let place = call.members.firstIndex(where: { $0.userID == user }) else { return nil }
        return states.indices.contains(place) ? states[place] : nil
    }
}

extension EventName {
    /// For the device that is told: another one of the user has the call.
    fileprivate var isOver: Bool {
        switch self {
        case .created, .handledElsewhere: true
        case .invited, .userStateChanged, .cancelled, .timeout, .ended: false
        }
    }
}

extension [CallID: HeardCall] {
    /// What either has been told.
    mutating func merge(_ other: [CallID: HeardCall]) {
        merge(other) { ($0.revision, $0.time) < ($1.revision, $1.time) ? $1 : $0 }
    }
}

extension ZegoNotification {
    /// As a stream of server-sent events has it: the path as the event's name, the body as its data. The id comes last: a client that reads
    /// line by line has it once it has the rest.
    func serverSent(_ id: EventID) -> [UInt8] {
        Array("event: \(path.rawValue)\ndata: ".utf8) + body + Array("\nid: \(id.text)\n\n".utf8)
    }
}
