internal import BellwireClientCore
internal import SignalingProtocol
internal import ZegoCallProtocol

/// The notifications that the app got of its calls, so that the app gets each notification once: even when two events
/// name a change, an event was missed, or the connection was lost in between.
struct CallLedger {
    enum Phase: Equatable {
        /// The call is not this user's on this device, or not yet. Can transition to every other phase.
        case unknown
        /// The app was told of the invitation. Can transition to `taken` and `over`; another invitation makes the call
        /// ring anew.
        case ringing
        /// This user made or accepted the call on this device. Can transition to `over`.
        case taken
        /// There are no more notifications, unless this user is invited again. Can transition to `ringing`.
        case over
    }

    struct Known {
        var call: ZegoCall
        var phase = Phase.unknown
        /// The invitation that rings or has been answered, identified by its expiry by the service's clock: a user may
        /// be invited again.
        var invitation: Int64?
        /// The members that were reported, or need no report.
        var members = ReportedMembers()
        /// Whether this device ends the call, so that no notification of the end is needed.
        var isEnding = false
        /// The number of the call in the order of the calls' beginnings.
        var number: Int
    }

    /// The bound on remembered calls; the oldest calls in phase `over` are forgotten first.
    static let most = 256

    let user: UserID
    let device: DeviceID
    private(set) var calls: [CallID: Known] = [:]
    private var count = 0

    init(user: UserID, device: DeviceID) {
        self.user = user
        self.device = device
    }

    // MARK: Requests of this user

    /// Notes that the app starts a call; returns false when there is a call with this id already.
    mutating func started(_ call: ZegoCall, _ callID: CallID) -> Bool {
        guard calls[callID] == nil else { return false }
        var known = makeKnown(call)
        known.phase = .taken
        calls[callID] = known
        return true
    }

    /// Forgets a call that the service refuses.
    mutating func refused(_ callID: CallID) { calls[callID] = nil }

    mutating func ending(_ callID: CallID) { calls[callID]?.isEnding = true }

    mutating func notEnding(_ callID: CallID) { calls[callID]?.isEnding = false }

    // MARK: Calls from the service

    /// Returns the news in an event, a response or a welcome. With `isElsewhere` the service says that another device
    /// has the call, or that the user declined by a notification's button.
    mutating func received(_ call: CallSnapshot, isElsewhere: Bool = false) -> [ToldNotification] {
        guard let own = call.member(user) else { return [] }
        let isNew = calls[call.callID] == nil
        var known = calls[call.callID] ?? makeKnown(ZegoCall(call))
        // The revision is not checked: the client delivers news only, even from a store that has lost writes and counts
        // anew.
        let mayRing = own.state.isPending && call.state != .ended
        guard known.phase != .over || mayRing else { return [] }
        let wasTaken = known.phase == .taken
        var news = ownNews(own, call, isElsewhere, &known)
        // The app does not hear of changes from before this run of the app.
        let isInformed = wasTaken && !isNew
        news += othersNews(call, own, isInformed: isInformed, &known)
        if call.state == .ended, known.phase != .over {
            if known.phase == .taken { news += endNews(call, own, known) }
            known.phase = .over
        }
        calls[call.callID] = known
        return news
    }

    /// Ends a call that has ended in an unknown way: the app stops ringing, or leaves the call.
    mutating func gone(_ callID: CallID) -> [ToldNotification] {
        guard let known = calls[callID] else { return [] }
        calls[callID]?.phase = .over
        switch known.phase {
        case .ringing:
            calls[callID]?.invitation = nil
            return [canceled(known)]
        case .taken: return [.ended(callID: known.call.id, by: peer(of: known))]
        case .unknown, .over: return []
        }
    }

    private mutating func makeKnown(_ call: ZegoCall) -> Known {
        if calls.count >= Self.most {
            let over = calls.filter { $0.value.phase == .over }.min { $0.value.number < $1.value.number }
            if let over { calls[over.key] = nil }
        }
        count += 1
        return Known(call: call, number: count)
    }
}
