internal import BellwireClientCore
internal import SignalingProtocol
internal import ZegoCallProtocol

/// What the app was told of its calls, so that it is told each thing once: also when two events name it, an event was missed, or the
/// connection was lost in between.
struct CallLedger {
    enum Phase: Equatable {
        /// Of a call that is not this user's here, or not yet. Can transition to every other.
        case unknown
        /// The app was told of the invitation. Can transition to `taken` and `over`; with another invitation it rings anew.
        case ringing
        /// This user made the call or accepted it, on this device. Can transition to `over`.
        case taken
        /// Nothing more is told, unless this user is invited anew. Can transition to `ringing`.
        case over
    }

    struct Known {
        var call: ZegoCall
        var phase = Phase.unknown
        /// The invitation that rings or has been answered, by when it expires for the service: a user may be invited again.
        var invitation: Int64?
        /// The states of the others that were told, or are no news.
        var told: [UserID: MemberState] = [:]
        /// This device ends it: nobody tells it of that.
        var isEnding = false
        /// In the order of their beginnings.
        var number: Int
    }

    /// Calls that are remembered; of those that are over the oldest are forgotten first.
    static let most = 256

    let user: UserID
    let device: DeviceID
    private(set) var calls: [CallID: Known] = [:]
    private var count = 0

    init(user: UserID, device: DeviceID) {
        self.user = user
        self.device = device
    }

    // MARK: What this user does

    /// The app starts a call. False when there is one of this id already.
    mutating func started(_ call: ZegoCall, _ callID: CallID) -> Bool {
        guard calls[callID] == nil else { return false }
        var known = makeKnown(call)
        known.phase = .taken
        for callee in call.callees.compactMap({ UserID($0.id) }) { known.told[callee] = .inviting }
        calls[callID] = known
        return true
    }

    /// The service refuses the call.
    mutating func refused(_ callID: CallID) { calls[callID] = nil }

    mutating func ending(_ callID: CallID) { calls[callID]?.isEnding = true }

    mutating func notEnding(_ callID: CallID) { calls[callID]?.isEnding = false }

    // MARK: What the service tells

    /// What is news in an event, a response or a welcome. `isElsewhere`: the service says that another device has the call, or that it was
    /// declined beside the app.
    mutating func received(_ call: CallSnapshot, isElsewhere: Bool = false) -> [ToldNotification] {
        guard let own = call.member(user) else { return [] }
        let isNew = calls[call.callID] == nil
        var known = calls[call.callID] ?? makeKnown(ZegoCall(call))
        // By revision nothing is judged: the client gives only what is news, also of a store that has lost writes and counts anew.
        let mayRing = own.state.isPending && call.state != .ended
        guard known.phase != .over || mayRing else { return [] }
        let wasTaken = known.phase == .taken
        var news = ownNews(own, call, isElsewhere, &known)
        // What had happened before this run of the app is not its business.
        let isInformed = wasTaken && !isNew
        news += othersNews(call, own, isInformed: isInformed, &known)
        if call.state == .ended, known.phase != .over {
            if known.phase == .taken { news += endNews(call, own, known) }
            known.phase = .over
        }
        calls[call.callID] = known
        return news
    }

    /// The call is over, and how cannot be known: the app stops ringing, or leaves.
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
