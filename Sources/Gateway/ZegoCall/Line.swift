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
        var calls: [CallID: HeardCall] = [:]
    }

    let device: DeviceAddress
    var standing: Standing
    var session = ""
    /// Of the session that this gateway has announced, and that may still stand.
    var isAnnounced = false
    var streams: [Int: Stream] = [:]

    init(_ device: DeviceAddress) {
        self.device = device
        standing = .away(waitingFor: [])
    }

    /// Calls of which it is remembered what a stream was told. Those that do not ring give way.
    static let mostCalls = 64
    /// Milliseconds between two signs of life.
    static let sign: Int64 = 15_000
}

/// What a stream has been told of a call. What the user itself does, at whatever gateway, brings no event.
struct HeardCall {
    private var revision = 0
    private(set) var time: Int64 = 0
    /// The invitation that was told, by when it expires for the service: a user may be invited again.
    private var invitation: Int64?
    /// By the boot clock, unless it is known that it does not ring.
    private var ringsUntil: Int64?
    private var states: [UserID: MemberState] = [:]

    func mayRing(_ now: Int64) -> Bool { ringsUntil.map { now < $0 } ?? false }

    /// Also what a store that lost writes gives a second time (docs/protocol.md, section 5).
    func isNews(_ event: Event, to user: UserID) -> Bool {
        if event.revision > revision || event.time > time { return true }
        return event.name == .invited && event.revision == revision && invitation != Self.invitation(event, user)
    }

    private static func invitation(_ event: Event, _ user: UserID) -> Int64 {
        event.call.member(user)?.expiresAt ?? 0
    }

    /// What is to be told of the event, which is news.
    mutating func take(_ event: Event, as user: UserID, now: Int64) -> [ZegoNotification] {
        let known = self
        (revision, time) = (event.revision, event.time)
        let changes = event.changes.filter { states[$0.userID] != $0.state }
        for member in event.call.members { states[member.userID] = member.state }
        let isRinging = event.call.state != .ended && event.call.member(user)?.state.isPending ?? false
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
}

extension ZegoNotification {
    /// As a stream of server-sent events has it: the path as the event's name, the body as its data.
    var serverSent: [UInt8] { Array("event: \(path.rawValue)\ndata: ".utf8) + body + Array("\n\n".utf8) }
}
