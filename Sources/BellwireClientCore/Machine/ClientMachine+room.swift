import SignalingProtocol

/// Room in the table of known calls. Any user may ring this device, so no user may push this device's own calls out of
/// the table: a live call of which the device is part is never forgotten.
extension ClientMachine {
    /// The meaning of a call to this device, from the kind that is forgotten first to the kind that is never forgotten.
    private enum Standing {
        /// The call has ended: its record only keeps the call from ringing again.
        case over
        /// The user takes part in the call on another device.
        case elsewhere
        /// The call rings; the inviter with the most ringing calls loses a call first.
        case ringing
        /// The device calls or talks in the call, or is about to.
        case own
    }

    private func standing(of call: CallSnapshot, isLive: Bool, asked: Set<CallID>) -> Standing {
        guard isLive, let own = call.member(device.userID) else { return .over }
        if asked.contains(call.callID) { return .own }
        if own.state.isPending { return .ringing }
        return own.device == device.deviceID ? .own : .elsewhere
    }

    /// The calls that the app has just asked to change.
    private var askedCalls: Set<CallID> { Set(pending.compactMap { $0.changesState ? $0.callID : nil }) }

    private enum Room: Equatable {
        case free
        /// Room once the call at this index is forgotten.
        case instead(of: Int)
        case none
    }

    /// Whether the machine can remember the call. A call without room must not be taken in, since the machine would
    /// forget the call at once.
    func hasRoom(for call: CallSnapshot) -> Bool { !isLive(call) || room(for: call) != .none }

    /// Whether the app may begin one more call. Up to `knownCalls` own calls are never forgotten, and other users'
    /// calls do not count towards that number.
    func mayBegin(_ entry: PendingRequest) -> Bool {
        guard entry.beginsCall, entry.callID.map({ knownCall($0) == nil }) ?? true else { return true }
        let asked = askedCalls
        let own = calls.count { standing(of: $0.snapshot, isLive: $0.isLive, asked: asked) == .own }
        return own + pending.count { $0.beginsCall && $0.callID.map { knownCall($0) == nil } ?? true }
            < configuration.knownCalls
    }

    /// Makes room for the call, if needed by forgetting another call; tells the app when that other call was live.
    /// Returns nil when no room can be made.
    mutating func makeRoom(for call: CallSnapshot) -> [Action]? {
        switch room(for: call) {
        case .free: return []
        case .none: return nil
        case .instead(let place):
            let forgotten = calls.remove(at: place)
            return forgotten.isLive ? [.deliver(.gone(forgotten.snapshot))] : []
        }
    }

    private func room(for call: CallSnapshot) -> Room {
        guard calls.count >= configuration.knownCalls, knownCall(call.callID) == nil else { return .free }
        let asked = askedCalls
        let standings = calls.map { standing(of: $0.snapshot, isLive: $0.isLive, asked: asked) }
        let new = standing(of: call, isLive: isLive(call), asked: asked)
        func longestSilent(_ standing: Standing) -> Int? {
            calls.indices.filter { standings[$0] == standing }.min { calls[$0].heardAt < calls[$1].heardAt }
        }
        if let place = longestSilent(.over) { return .instead(of: place) }
        guard new != .over else { return .none }
        if let place = longestSilent(.elsewhere) { return .instead(of: place) }
        guard new != .elsewhere else { return .none }
        let ringing = calls.indices.filter { standings[$0] == .ringing }
        let candidates = ringing.map { calls[$0].snapshot } + (new == .ringing ? [call] : [])
        guard let refused = leastMissed(candidates) else { return .none }
        return ringing.first { calls[$0].callID == refused.callID }.map { .instead(of: $0) } ?? .none
    }

    /// Returns the newest ringing call of the inviter with the most ringing calls: the last call of a flood gives way,
    /// and not the only call of another user.
    private func leastMissed(_ ringing: [CallSnapshot]) -> CallSnapshot? {
        func caller(_ call: CallSnapshot) -> UserID { call.member(device.userID)?.invitedBy ?? call.inviter }
        var counts: [UserID: Int] = [:]
        for call in ringing { counts[caller(call), default: 0] += 1 }
        func rank(_ call: CallSnapshot) -> (Int, Int64, CallID) {
            (counts[caller(call)] ?? 0, call.createdAt, call.callID)
        }
        return ringing.max { rank($0) < rank($1) }
    }
}
