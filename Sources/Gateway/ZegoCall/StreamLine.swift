import SignalingProtocol
import ZegoCallProtocol

/// A device whose user receives events over HTTP: the device's streams on this gateway, its presence, and the events
/// that the streams have reported. The gateway acts for the device as `BellwireClient` would, except for heartbeats,
/// which the app sends itself.
struct StreamLine {
    enum Standing {
        /// There is no broker connection, or the broker has not answered these filters yet.
        case away(waitingFor: Set<String>)
        /// Presence was published `times` times, and will be published again at `next`.
        case announcing(times: Int, next: Int64)
        /// The device is online; its presence is renewed at `next`.
        case online(next: Int64)
    }

    struct Stream {
        let opened: StreamDesk.Opened
        /// The time of the next sign of life.
        var nextSign: Int64
        /// The calls that this stream has reported. Each stream has its own record, because another stream of the
        /// device may be dead without notice.
        var calls: [CallID: HeardCall]
        /// The part of `calls` that the client's host has acknowledged. The rest may be lost with the connection.
        var arrived: [CallID: HeardCall]
        /// The id that was sent last.
        var lastID: EventID

        /// - Parameter calls: the calls that the stream's client knows already.
        init(_ opened: StreamDesk.Opened, _ calls: [CallID: HeardCall], now: Int64) {
            self.opened = opened
            nextSign = now + StreamLine.sign
            self.calls = calls
            arrived = calls
            lastID = EventID(calls, now: now)
        }
    }

    let device: DeviceAddress
    var standing: Standing
    var session = ""
    /// Whether this gateway has announced the session, and presence may still show the session.
    var isAnnounced = false
    var streams: [Int: Stream] = [:]
    /// The time at which the gateway begins another session, so that the service resends missed events.
    var nextQuestion: Int64?
    /// The time of the last ack for an event.
    var lastAck: Int64?
    /// Whether an ack of the preceding session may be counted for this session.
    var mayBeMistaken = false

    init(_ device: DeviceAddress) {
        self.device = device
        standing = .away(waitingFor: [])
    }

    /// The bound of calls in a stream's record. Calls that do not ring are forgotten first.
    static let mostCalls = 64
    /// The milliseconds between two signs of life.
    static let sign: Int64 = 15_000
    /// How long the service may report a call after its end, in milliseconds.
    static let afterTheEnd: Int64 = 60_000
}

/// The state of a call, as a stream has reported the state. The user's own requests, on any gateway, cause no event.
struct HeardCall: Equatable {
    private(set) var revision = 0
    private(set) var time: Int64 = 0
    /// The expiry of the invitation that was reported; identifies the invitation, because a user may be invited again.
    private(set) var invitation: Int64?
    /// The end of the ringing by the boot clock; nil when the call is known not to ring.
    private var ringsUntil: Int64?
    /// The states of the members, in the order of the call.
    private(set) var states: [MemberState] = []
    /// Since this time, by the boot clock, the user is known to be neither rung nor in the call.
    private var overSince: Int64?

    init() {}

    /// Makes the state that an id contains.
    init(revision: Int, time: Int64, invitation: Int64?, states: [MemberState], goesOn: Bool, now: Int64) {
        (self.revision, self.time, self.invitation, self.states) = (revision, time, invitation, states)
        overSince = goesOn ? nil : now
        ringsUntil = invitation.map { _ in now + Int64(ZegoCall.timeout) * 1_000 }
    }

    /// Makes the state of a call that the user has made: the client knows the call by the HTTP response, but not the
    /// later changes.
    init(madeAs call: CallSnapshot) {
        (revision, time) = (1, call.createdAt)
        states = call.members.map { $0.userID == call.inviter ? .accepted : .inviting }
    }

    /// Whether the user is rung or in the call, as far as the stream knows.
    var goesOn: Bool { overSince == nil }

    /// Whether the service may still report the call.
    func matters(_ now: Int64) -> Bool { overSince.map { now < $0 + StreamLine.afterTheEnd } ?? true }

    func mayRing(_ now: Int64) -> Bool { ringsUntil.map { now < $0 } ?? false }

    /// Whether the stream does not know the event yet. A store that lost writes may repeat a revision
    /// (docs/protocol.md, section 5); such an event also counts as new.
    func isNews(_ event: Event, to user: UserID) -> Bool {
        if event.revision > revision || event.time > time { return true }
        return event.name == .invited && event.revision == revision && invitation != Self.invitation(event, user)
    }

    private static func invitation(_ event: Event, _ user: UserID) -> Int64 {
        event.call.member(user)?.expiresAt ?? 0
    }

    /// Notes that the user left the call by the user's own request, for which no event follows.
    mutating func over(_ now: Int64) { overSince = overSince ?? now }

    /// Takes a new event. Returns the notifications to send.
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
    /// Whether the call is over for this device, because another device of the user has the call.
    fileprivate var isOver: Bool {
        switch self {
        case .created, .handledElsewhere: true
        case .invited, .userStateChanged, .cancelled, .timeout, .ended: false
        }
    }
}

extension [CallID: HeardCall] {
    /// Merges the states that either side has reported; the later state wins.
    mutating func merge(_ other: [CallID: HeardCall]) {
        merge(other) { ($0.revision, $0.time) < ($1.revision, $1.time) ? $1 : $0 }
    }
}

extension ZegoNotification {
    /// Returns the notification as a server-sent event, with its path as the event's name and its body as the data. The
    /// id comes last, so that a client that reads line by line has the id only after the rest.
    func serverSent(_ id: EventID) -> [UInt8] {
        Array("event: \(path.rawValue)\ndata: ".utf8) + body + Array("\nid: \(id.text)\n\n".utf8)
    }
}
