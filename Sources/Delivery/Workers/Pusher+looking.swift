import CallCore
import CallStore
import HTTPSending
import SignalingProtocol

/// A request for a push, which the sender has.
struct PushAttempt {
    let call: LeasedCall
    let due: DuePush
    let push: OutgoingPush
    let provider: PushProvider
}

/// The facts of a call, and the time at which their reading began, by the boot clock.
private struct FreshReading {
    let reading: PushReading
    let began: Int64
}

extension Pusher {
    /// Looks at a call: due pushes are reserved and noted as `trying`; then the facts are read and decided once more
    /// before a push leaves.
    ///
    /// `PushJudge` says which pushes are due. These are the reasons for which a due push does not leave now:
    /// * Another push to the same registration is under way (`choose`).
    /// * Too many pushes of the call wait (`LeasedCall.mostPending`).
    /// * The pause after a failed attempt is not over (`PendingPush.notBefore`). The timeline has `failed`.
    /// * The provider has no free slot (`PushSlots`).
    /// * The device has got too many pushes (`reserve`, `PushLimits`). The timeline has `limited`.
    /// * The facts are older than `PushBounds.freshness`, the worker lease ends, or the process stops (`handOver`).
    /// * The provider's access token has not come yet.
    /// * The settings do not fit the push. The timeline has `refused`.
    /// * Other processes serve the push's platform (`isOwedElsewhere`).
    /// * Another worker holds the call, this worker holds as many calls as it may (`PushBounds.held`), or the store
    ///   fails.
    ///
    /// The answer `gone` of a provider ends the registration (`Pusher+answers.swift`).
    func look(at call: LeasedCall) async throws(StoreError) {
        call.due = nil
        call.hasMore = false
        guard var fresh = try await read(call) else { return giveUpPending(of: call) }
        var due = judged(fresh.reading, call)
        var chosen = choose(due, call)
        if chosen.contains(where: { call.pending[$0.id]?.step ?? .found < .noted }) {
            try await reserve(chosen, call)
            guard let anew = try await read(call) else { return giveUpPending(of: call) }
            fresh = anew
            due = judged(fresh.reading, call)
            let ids = Set(chosen.map(\.id))
            chosen = due.filter { ids.contains($0.id) }
        }
        for push in chosen { handOver(push, fresh, call) }
        try await write(call)
    }

    // MARK: Reading

    /// Writes the waiting notes, and reads the facts for the decision. Returns nil when the call does not exist, or
    /// when this worker does not hold the call any more: facts from before have no consequences.
    private func read(_ call: LeasedCall) async throws(StoreError) -> FreshReading? {
        try await endRegistrations(call)
        if sightings.isDue(at: clock()) { try await store.readSightings() }
        var began = clock()
        let notes = call.notes.values.sorted { $0.key < $1.key }
        let queries = [Query.record(.call(call.callID))] + call.users.map(Query.devices)
        var found: [QueryAnswer]?
        if !notes.isEmpty {
            let written = try await store.write(
                [], notes.map { .push(call.callID, $0, by: call.holder) }, thenRead: queries)
            call.wrote(notes)
            found = written.answers
        }
        if found == nil {
            began = clock()
            found = try await store.read(queries)
        }
        guard let found, let stored = found[0].record, case .call(let known) = stored.record else { return nil }
        var presence = found.dropFirst().map(\.devices)
        let users = known.members.filter { $0.invitedRevision > 0 && !$0.isWithheld }.map(\.userID)
        if users != call.users {
            call.users = users
            presence = try await store.devices(of: users)
        }
        let registrations = try await store.registrations(of: users)
        let byUser = { (values: [[DevicePresence]]) in Dictionary(zip(users, values)) { $1 } }
        let reading = PushReading(stored, byUser(presence), Dictionary(zip(users, registrations)) { $1 })
        guard var reading, held[call.callID] === call else { return nil }
        call.complete(&reading)
        return FreshReading(reading: reading, began: began)
    }

    private func endRegistrations(_ call: LeasedCall) async throws(StoreError) {
        while let registration = call.gone.first {
            try await store.end(registration)
            call.gone.removeAll { $0 == registration }
        }
    }

    /// Writes all waiting notes.
    func write(_ call: LeasedCall) async throws(StoreError) {
        try await endRegistrations(call)
        guard !call.notes.isEmpty else { return }
        let notes = call.notes.values.sorted { $0.key < $1.key }
        _ = try await store.write([], notes.map { .push(call.callID, $0, by: call.holder) }, thenRead: [])
        call.wrote(notes)
    }

    // MARK: Judging

    /// Returns the due pushes. Pending pushes that are not due (any more) end here.
    private func judged(_ reading: PushReading, _ call: LeasedCall) -> [DuePush] {
        let time = storeTime
        let judgement = judge.judge(reading, now: time, unsent: call.unsent)
        for state in judgement.settled { call.note(state) }
        for id in judgement.late { tell(call, id, .late) }
        let due = Set(judgement.due.map(\.id))
        for (id, pending) in call.pending where !due.contains(id) && !pending.isUnderWay {
            // Another worker may have sent the push.
            let phase = reading.pushes.first { $0.key == id.key && $0.invitation == id.invitation }?[id.kind]
            let isOpen = phase == nil || phase == .trying
            if pending.expiresAt <= time, isOpen, !judgement.late.contains(id) { tell(call, id, .late) }
            end(id, of: call)
        }
        call.due = judgement.next
        if isOwedElsewhere(reading, time) { call.due = min(call.due ?? .max, time + PushBounds.search) }
        return judgement.due
    }

    /// Whether a push is due that other processes send according to the store's policy, while this process has no
    /// settings for the push's platform. The push is left to those processes.
    private func isOwedElsewhere(_ reading: PushReading, _ time: Milliseconds) -> Bool {
        guard let known = knownPolicy, known != judge.policy else { return false }
        return PushJudge(policy: known, lease: judge.lease).judge(reading, now: time).due.contains { push in
            !(judge.policy.apps[push.registration.key.app]?.contains(push.registration.key.platform) ?? false)
        }
    }

    /// Returns the pushes that may leave now: a push waits for the response to the preceding push to the same
    /// registration, for the time of its next attempt, and for a slot with its provider.
    private func choose(_ due: [DuePush], _ call: LeasedCall) -> [DuePush] {
        let underWay = call.underWay
        return due.filter { push in
            guard !underWay.contains(push.registration.key) else { return false }
            // The device has registered another token or subscription since, for which no attempt was made.
            if push.kind == .ring, let known = call.pending[push.id], known.target != push.registration.mark {
                end(push.id, of: call)
            }
            let known = call.pending[push.id]
            guard known != nil || call.pending.count < LeasedCall.mostPending else {
                call.hasMore = true
                return false
            }
            var pending = known ?? PendingPush(push)
            defer { call.pending[push.id] = pending }
            // Another worker has noted this push, and may have sent the push.
            if pending.step < .noted, push.state[push.kind] == .trying { pending.mayHaveArrived = true }
            guard pending.notBefore <= now else { return false }
            let provider = provider(of: push.registration)
            if pending.slot == nil, slots.take(provider, for: call.callID) { pending.slot = provider }
            return pending.slot != nil
        }
    }

    /// Counts new pushes against the limits of their devices, and ends the pushes beyond a limit. The others are
    /// noted as `trying`, to be written with the next reading.
    private func reserve(_ chosen: [DuePush], _ call: LeasedCall) async throws(StoreError) {
        // A `stop` belongs to the ring that it ends, and is never limited: without the `stop` a phone would ring on.
        let new = chosen.filter { $0.kind != .stop && call.pending[$0.id]?.step ?? .found < .reserved }
        let reservations = new.map { push in
            PushReservation(device: push.registration.device, inviter: push.inviter, id: push.reservation(call.callID))
        }
        let answers = reservations.isEmpty ? [] : try await store.reserve(reservations)
        for (push, mayGo) in zip(new, answers) {
            if mayGo {
                call.pending[push.id]?.step = .reserved
            } else {
                call.note(push, .over)
                tell(call, push.id, .limited)
                end(push.id, of: call)
            }
        }
        for push in chosen where call.pending[push.id]?.step ?? .noted < .noted {
            call.pending[push.id]?.step = .noted
            if push.state[push.kind] != .trying { call.note(push, .trying) }
        }
    }

    private func provider(of registration: PushRegistration) -> PushProvider {
        let app = settings.push.apps[registration.key.app]
        switch registration.key.platform {
        case .apns, .apnsVoIP: return .named(app?.apns?.endpoint.text ?? "")
        case .fcm: return .named(app?.fcm?.endpoint.text ?? "")
        case .webPush: return .webPush(host: registration.target.host, user: registration.device.userID)
        }
    }

    // MARK: Handing over

    private func handOver(_ due: DuePush, _ fresh: FreshReading, _ call: LeasedCall) {
        guard let pending = call.pending[due.id], let slot = pending.slot else { return }
        // The push must leave before the worker lease ends, because another worker may take the call then.
        let deadline = min(fresh.began + PushBounds.freshness, state.sureUntil, now + due.expiresAt - storeTime)
        guard !isStopping, held[call.callID] === call, clock() < deadline,
            let push = outgoing(due, fresh.reading.call, hasNewToken: pending.hasNewToken)
        else { return }
        lastRequest += 1
        switch providers.prepare(push, id: lastRequest, now: storeTime, wall: wall()) {
        case .send(var request):
            request.handOverBefore = deadline
            call.pending[due.id]?.step = .underWay
            call.leavesUntil = max(call.leavesUntil, deadline)
            attempts[request.id] = PushAttempt(call: call, due: due, push: push, provider: slot)
            state.sender.send(request)
        case .waitForToken(let request):
            waitingForToken.insert(call.callID)
            if let request { state.sender.send(request) }
        case .again(let after, let reason):
            tell(call, due.id, .failed, reason: reason)
            failed(due.id, of: call, after)
        case .refused(let reason):
            tell(call, due.id, .refused, reason: reason)
            call.note(due, .over)
            end(due.id, of: call)
        }
    }

    private func outgoing(_ due: DuePush, _ call: Call, hasNewToken: Bool) -> OutgoingPush? {
        let device = due.registration.device
        guard let member = call.member(device.userID), let app = settings.push.apps[due.registration.key.app] else {
            return nil
        }
        let key = RingKey.text(
            secret: secret, callID: call.callID, user: device.userID, device: device.deviceID,
            invitation: due.state.invitation)
        let content = PushContent(
            due.kind, of: call, to: member, said: call.pushTexts(of: member), texts: app.texts,
            check: key.flatMap { settings.push.check(call.callID, device, key: $0) })
        var push = OutgoingPush(
            due.registration, content, invitation: due.state.invitation, wasRung: due.wasRung)
        push.hasNewToken = hasNewToken
        return push
    }
}

extension DuePush {
    /// The id of the push's reservation, which fits the store's bound whatever the names are.
    fileprivate func reservation(_ callID: CallID) -> String {
        let push = "\(callID):\(state.invitation):\(kind):\(registration.key.platform):\(registration.key.app)"
        // Each token or subscription counts, so that a device that registers ever new tokens while the device rings is
        // not sent more pushes.
        return kind == .ring ? "\(push):\(registration.mark)" : push
    }
}

extension PushTarget {
    /// The host and port of a subscription's endpoint; empty for a token.
    fileprivate var host: String {
        guard case .subscription(let endpoint, _, _) = self, let url = try? HTTPSURL(endpoint) else { return "" }
        return "\(url.host.lowercased()):\(url.port)"
    }
}
