import SignalingProtocol

/// Events, and what is known of calls (docs/protocol.md, section 5).
extension ClientMachine {
    /// In milliseconds: the service sends unacked events again for 60 s. A welcome that does not list a call which was
    /// not heard of for longer than that is not merely older than the last news of it.
    static let resyncAfter: Int64 = 90_000

    mutating func received(_ event: Event, now: Int64) -> [Action] {
        // Not acked, so the service sends it again as long as it is of use: by then there may be room.
        guard hasRoom(for: event.call) else { return [.refuse(event.callID)] }
        let known = knownCall(event.callID)
        let isNews = known?.isNews(event.revision, madeAt: event.time) ?? (event.revision > 0)
        // Cumulative: an ack below what this device has would be answered with news that it had.
        // No service counts below 0, and none would take such an ack.
        let acked = isNews ? event.revision : max(event.revision, known?.revision ?? 0, 0)
        var actions = [Action.publish(.ackCall(event.callID, revision: acked))]
        actions += remember(
            event.call, revision: event.revision, reference: event.time, expiresIn: event.expiresIn, now: now)
        if isNews { actions.append(.deliver(.event(event))) }
        return actions
    }

    /// An event that this version cannot read: it is acked, so that it is not sent again.
    package mutating func receivedUnknownEvent(_ callID: CallID, revision: Int, now: Int64) -> [Action] {
        let had = knownCall(callID)?.revision ?? 0
        return [.publish(.ackCall(callID, revision: max(revision, had, 0)))]
    }

    /// A response tells the state of its call. Later events up to that revision will be ignored, so the stream tells it.
    mutating func learned(_ success: Response.Success, now: Int64) -> [Action] {
        let call = success.call
        guard hasRoom(for: call) else { return [] }
        let isNews = knownCall(call.callID)?.isNews(call.revision, madeAt: success.time) ?? (call.revision > 0)
        let actions = remember(
            call, revision: call.revision, reference: success.time, expiresIn: nil, now: now)
        return isNews ? actions + [.deliver(.snapshot(call))] : actions
    }

    func knownCall(_ callID: CallID) -> KnownCall? { calls.first { $0.callID == callID } }

    /// Takes over what a message says about a call. `revision` is 0 for a welcome. `reference` is when the revision was made, or the
    /// welcome: by the service's clock, the message's expiry times were `now` or later then.
    mutating func remember(
        _ call: CallSnapshot, revision: Int, reference: Int64, expiresIn: Int?, now: Int64
    ) -> [Action] {
        var actions: [Action] = []
        let index: Int
        if let known = calls.firstIndex(where: { $0.callID == call.callID }) {
            index = known
        } else {
            switch makeRoom(for: call) {
            // Over, and with nobody who would have to be forgotten for it: there is nothing to follow.
            case .none: return []
            case .some(let forgetting): actions = forgetting
            }
            calls.append(
                KnownCall(snapshot: call, revision: 0, isLive: false, heardAt: now, connection: connection))
            index = calls.count - 1
            calls[index].isOrphaned = !configuration.resumesCalls && takesPart(in: call) && !isAsked(call.callID)
        }
        let isWelcome = revision == 0
        let goesBack = call.revision < calls[index].snapshot.revision
        let isNewest = isWelcome || !goesBack || reference > calls[index].asOf
        // A resend of what had been given up locally does not make it ring again; anything newer does, or a welcome.
        let isNews = calls[index].isNews(revision, madeAt: reference)
        let tells = isWelcome || isNews
        if !isWelcome, isNews { (calls[index].revision, calls[index].time) = (revision, reference) }
        // What was had is lost there, and comes again under the same numbers.
        if isWelcome, goesBack { (calls[index].revision, calls[index].time) = (0, 0) }
        calls[index].heardAt = now
        calls[index].connection = connection
        guard isNewest else { return actions }
        calls[index].snapshot = call
        calls[index].asOf = reference
        if tells { calls[index].isLive = isLive(call) }
        calls[index].countdown = countdown(at: index, reference: reference, expiresIn: expiresIn, now: now)
        calls[index].nextHeartbeat =
            beats(calls[index]) ? calls[index].nextHeartbeat ?? now + heartbeatInterval : nil
        return actions
    }

    func isLive(_ call: CallSnapshot) -> Bool {
        call.state != .ended && call.member(device.userID)?.state.isLive ?? false
    }

    // MARK: Resynchronisation

    /// Calls that the service lists are told when they are new to the app. Calls that it does not list are over, and
    /// their events are not owed to this session: the app is told once.
    mutating func resynchronised(with welcome: Welcome, now: Int64) -> [Action] {
        var actions: [Action] = []
        for call in welcome.calls {
            if isAsked(call.callID) {
                heldCalls[call.callID] = HeldCall(snapshot: call, reference: welcome.serverTime)
            } else {
                actions += listed(call, reference: welcome.serverTime, now: now)
            }
        }
        // A list that had to be cut says nothing about the calls that it does not name.
        guard welcome.omittedCalls == 0 else { return actions }
        for index in calls.indices where calls[index].isLive {
            let call = calls[index]
            guard !welcome.calls.contains(where: { $0.callID == call.callID }), isOutdated(call, now: now),
                !pending.contains(where: { $0.isInvite && $0.callID == call.callID })
            else { continue }
            actions += over(at: index, .gone(call.snapshot))
        }
        return actions
    }

    private mutating func listed(_ call: CallSnapshot, reference: Int64, now: Int64) -> [Action] {
        let known = knownCall(call.callID)
        let isNews = known.map { !$0.isLive || call.revision != $0.snapshot.revision } ?? true
        // An older list than the last news, as two replicas may send them, brings nothing back to life. Long after the last
        // news, or on another connection, it is no older list: the store has lost what it had.
        let isOlder = known.map { call.revision < $0.snapshot.revision && !isOutdated($0, now: now) } ?? false
        guard !isOlder, hasRoom(for: call) else { return [] }
        let actions = remember(call, revision: 0, reference: reference, expiresIn: nil, now: now)
        return isNews ? actions + [.deliver(.snapshot(call))] : actions
    }

    /// A request of the app about this call is unanswered. What a welcome lists may be its success, of which the app is told first.
    private func isAsked(_ callID: CallID) -> Bool { pending.contains { $0.changesState && $0.callID == callID } }

    /// What a welcome had of a call, once the last request about it is answered.
    mutating func releaseHeld(_ callID: CallID, now: Int64) -> [Action] {
        guard !isAsked(callID), let held = heldCalls.removeValue(forKey: callID) else { return [] }
        return listed(held.snapshot, reference: held.reference, now: now)
    }

    /// The last news of the call are older than the list in a welcome that arrives now.
    private func isOutdated(_ call: KnownCall, now: Int64) -> Bool {
        call.connection != connection || now - call.heardAt > Self.resyncAfter
    }

    /// The service does not know a call that this device took for live.
    mutating func notFound(_ callID: CallID, now: Int64) -> [Action] {
        guard let index = calls.firstIndex(where: { $0.callID == callID && $0.isLive }) else { return [] }
        return over(at: index, .gone(calls[index].snapshot))
    }

    private mutating func over(at index: Int, _ event: ClientEvent) -> [Action] {
        calls[index].isLive = false
        calls[index].countdown = nil
        calls[index].nextHeartbeat = nil
        return [.deliver(event)]
    }

    // MARK: Countdown

    /// The countdown of an invitation that rings here, or that this user made and nobody answered.
    private func countdown(at index: Int, reference: Int64, expiresIn: Int?, now: Int64) -> KnownCall.Countdown? {
        let known = calls[index]
        let call = known.snapshot
        guard known.isLive, let own = call.member(device.userID) else { return nil }
        let expiresAt: Int64?
        if own.state.isPending {
            expiresAt = own.expiresAt
        } else {
            let pending = call.members.filter(\.state.isPending)
            guard call.state == .ringing, own.device == device.deviceID, !pending.isEmpty else { return nil }
            expiresAt = pending.compactMap(\.expiresAt).max()
        }
        // Wrapping is harmless: whatever a service sends, the result is bounded.
        let computed = expiresAt.map { $0 &- reference } ?? Int64(call.timeout) &* 1000
        let left = own.state.isPending ? expiresIn.map(Int64.init) ?? computed : computed
        let longest = Int64(Limits.invitationTimeout.upperBound) * 1000
        var countdown = KnownCall.Countdown(
            expiresAt: expiresAt, until: now + min(max(left, 0), longest) + configuration.ringingMargin)
        if let running = known.countdown, running.expiresAt == expiresAt {
            // Each message can only overstate what is left: by its own age.
            countdown.until = min(countdown.until, running.until)
        }
        return countdown
    }

    mutating func countdownsPassed(now: Int64) -> [Action] {
        var actions: [Action] = []
        for index in calls.indices {
            guard let countdown = calls[index].countdown, countdown.until <= now else { continue }
            actions += over(at: index, .invitationExpired(calls[index].snapshot))
        }
        return actions
    }

    // MARK: Heartbeats

    /// In advanced mode the service takes a silent member for gone (section 3).
    private func beats(_ call: KnownCall) -> Bool {
        guard configuration.sendsHeartbeats, call.isLive, !call.isOrphaned, call.snapshot.mode == .advanced else {
            return false
        }
        return takesPart(in: call.snapshot)
    }

    /// On this device, not on another one of the user.
    private func takesPart(in call: CallSnapshot) -> Bool {
        guard let own = call.member(device.userID) else { return false }
        return own.state == .accepted && own.device == device.deviceID
    }

    /// The app goes on with a call of an earlier run. Who only leaves the call does not.
    mutating func adopt(_ request: Request, now: Int64) {
        switch request.body {
        case .quit, .end: return
        default: break
        }
        guard request.body.changesCall, let callID = request.body.callID else { return }
        adopt(callID, now: now)
    }

    private mutating func adopt(_ callID: CallID, now: Int64) {
        guard let index = calls.firstIndex(where: { $0.callID == callID && $0.isOrphaned }) else { return }
        calls[index].isOrphaned = false
        // At once: the last heartbeat was the earlier run's.
        if beats(calls[index]) { calls[index].nextHeartbeat = now }
    }

    mutating func setHeartbeatInterval(seconds: Int, now: Int64) {
        heartbeatInterval = Int64(min(max(seconds, 1), 3600)) * 1000
        for index in calls.indices {
            guard let next = calls[index].nextHeartbeat else { continue }
            calls[index].nextHeartbeat = min(next, now + heartbeatInterval)
        }
    }

    /// The app beats by itself, for a call in which it is. Without a connection there is nobody to hear it.
    package mutating func heartbeat(_ callID: CallID, now: Int64) -> [Action] {
        adopt(callID, now: now)
        guard case .subscribed = link else { return [] }
        return [.publish(.heartbeat(callID))]
    }

    mutating func heartbeatsDue(now: Int64) -> [Action] {
        guard case .subscribed = link else { return [] }
        var actions: [Action] = []
        for index in calls.indices {
            guard let next = calls[index].nextHeartbeat, next <= now else { continue }
            calls[index].nextHeartbeat = now + heartbeatInterval
            actions.append(.publish(.heartbeat(calls[index].callID)))
        }
        return actions
    }
}
