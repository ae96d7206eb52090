import SignalingProtocol

/// Events about calls, and the machine's record of each call (docs/protocol.md, section 5).
extension ClientMachine {
    /// The age of a call's last news, in milliseconds, from which a welcome ends the call if the welcome does not list
    /// the call. The service resends unacked events for 60 s, so after 90 s the welcome cannot have crossed with newer
    /// news of the call.
    static let resyncAfter: Int64 = 90_000

    mutating func received(_ event: Event, now: Int64) -> [Action] {
        // Without an ack the service resends the event as long as the event is useful; by then there may be room.
        guard hasRoom(for: event.call) else { return [.refuse(event.callID)] }
        let known = knownCall(event.callID)
        let isNews = known?.isNews(event.revision, madeAt: event.time) ?? (event.revision > 0)
        // Acks are cumulative: the service would answer an ack below the known revision with events that the device has
        // had. The service counts no revision below 0, and accepts no ack below 0.
        let acked = isNews ? event.revision : max(event.revision, known?.revision ?? 0, 0)
        var actions = [Action.publish(.ackCall(event.callID, revision: acked))]
        actions += remember(
            event.call, revision: event.revision, reference: event.time, expiresIn: event.expiresIn, now: now)
        if isNews { actions.append(.deliver(.event(event))) }
        return actions
    }

    /// Acks an event that this version cannot read, so that the service does not resend the event.
    package mutating func receivedUnknownEvent(_ callID: CallID, revision: Int, now: Int64) -> [Action] {
        silence = SilenceWatch()
        let had = knownCall(callID)?.revision ?? 0
        return [.publish(.ackCall(callID, revision: max(revision, had, 0)))]
    }

    /// Takes over the call that a response carries. The device ignores later events up to that revision, so the app
    /// gets the response's call in the event stream.
    mutating func learned(_ success: Response.Success, now: Int64) -> [Action] {
        let call = success.call
        guard hasRoom(for: call) else { return [] }
        let isNews = knownCall(call.callID)?.isNews(call.revision, madeAt: success.time) ?? (call.revision > 0)
        let actions = remember(
            call, revision: call.revision, reference: success.time, expiresIn: nil, now: now)
        return isNews ? actions + [.deliver(.snapshot(call))] : actions
    }

    func knownCall(_ callID: CallID) -> KnownCall? { calls.first { $0.callID == callID } }

    /// Takes over the call that a message carries. `revision` is 0 for a welcome. `reference` is the time, by the
    /// service's clock, when the revision was made or the welcome was sent: the time left until an expiry counts from
    /// there.
    mutating func remember(
        _ call: CallSnapshot, revision: Int, reference: Int64, expiresIn: Int?, now: Int64
    ) -> [Action] {
        var actions: [Action] = []
        let index: Int
        if let known = calls.firstIndex(where: { $0.callID == call.callID }) {
            index = known
        } else {
            switch makeRoom(for: call) {
            // The call has ended, and only a call of higher rank could be forgotten in its place: the machine does not
            // follow this call.
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
        // A resend does not bring back a call that this device gave up locally; a newer revision or a welcome does.
        let isNews = calls[index].isNews(revision, madeAt: reference)
        let tells = isWelcome || isNews
        if !isWelcome, isNews { (calls[index].revision, calls[index].time) = (revision, reference) }
        // The store has lost writes, and gives the lost revisions a second time.
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

    /// Compares the known calls with the calls that the welcome lists. The app gets each listed call that is new to the
    /// app. Calls that the welcome does not list have ended, and this session gets no events about such calls: the app
    /// is told once.
    mutating func resynchronised(with welcome: Welcome, now: Int64) -> [Action] {
        var actions: [Action] = []
        for call in welcome.calls {
            if isAsked(call.callID) {
                heldCalls[call.callID] = HeldCall(snapshot: call, reference: welcome.serverTime)
            } else {
                actions += listed(call, reference: welcome.serverTime, now: now)
            }
        }
        // A list that the service had to cut (`omittedCalls`) does not show that an unlisted call has ended.
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
        // Two coordinators may send welcomes out of order: a list older than the last news brings no call back to life.
        // On another connection, or long after the last news, the lower revision means that the store has lost writes.
        let isOlder = known.map { call.revision < $0.snapshot.revision && !isOutdated($0, now: now) } ?? false
        guard !isOlder, hasRoom(for: call) else { return [] }
        let actions = remember(call, revision: 0, reference: reference, expiresIn: nil, now: now)
        return isNews ? actions + [.deliver(.snapshot(call))] : actions
    }

    /// Whether a request of the app that changes this call is unanswered. The call in a welcome may be the success of
    /// that request, and the app gets the response first.
    private func isAsked(_ callID: CallID) -> Bool { pending.contains { $0.changesState && $0.callID == callID } }

    /// Takes over the call that a welcome listed, once the last request about that call is answered.
    mutating func releaseHeld(_ callID: CallID, now: Int64) -> [Action] {
        guard !isAsked(callID), let held = heldCalls.removeValue(forKey: callID) else { return [] }
        return listed(held.snapshot, reference: held.reference, now: now)
    }

    /// Whether the last news of the call is older than the list in a welcome that arrives now.
    private func isOutdated(_ call: KnownCall, now: Int64) -> Bool {
        call.connection != connection || now - call.heardAt > Self.resyncAfter
    }

    /// Ends a call that this device took for live and the service does not know.
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

    /// Returns the countdown of an invitation that rings on this device, or that this user sent and no invitee has
    /// answered.
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
        // The subtraction may wrap without harm: the result is bounded below for any input.
        let computed = expiresAt.map { $0 &- reference } ?? Int64(call.timeout) &* 1000
        let left = own.state.isPending ? expiresIn.map(Int64.init) ?? computed : computed
        let longest = Int64(Limits.invitationTimeout.upperBound) * 1000
        var countdown = KnownCall.Countdown(
            expiresAt: expiresAt, until: now + min(max(left, 0), longest) + configuration.ringingMargin)
        if let running = known.countdown, running.expiresAt == expiresAt {
            // A message overstates the time that is left by the message's own age, never understates it.
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

    /// Whether the machine sends heartbeats for the call. In advanced mode the service lets a member whose device is
    /// not heard of quit the call (docs/protocol.md, section 3).
    private func beats(_ call: KnownCall) -> Bool {
        guard configuration.sendsHeartbeats, call.isLive, !call.isOrphaned, call.snapshot.mode == .advanced else {
            return false
        }
        return takesPart(in: call.snapshot)
    }

    /// Whether the user has accepted the call on this device, not on another device.
    private func takesPart(in call: CallSnapshot) -> Bool {
        guard let own = call.member(device.userID) else { return false }
        return own.state == .accepted && own.device == device.deviceID
    }

    /// Notes that the app goes on with a call of an earlier run. A request that only leaves the call does not count.
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
        // At once, since the earlier run sent the last heartbeat.
        if beats(calls[index]) { calls[index].nextHeartbeat = now }
    }

    mutating func setHeartbeatInterval(seconds: Int, now: Int64) {
        heartbeatInterval = Int64(min(max(seconds, 1), 3600)) * 1000
        for index in calls.indices {
            guard let next = calls[index].nextHeartbeat else { continue }
            calls[index].nextHeartbeat = min(next, now + heartbeatInterval)
        }
    }

    /// Sends a heartbeat for the app; an orphaned call counts as the app's own from now on. Without a connection the
    /// machine sends no heartbeat.
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
