import CallCore
import CallStore
import SignalingProtocol

/// The taking and releasing of calls.
extension Pusher {
    func hint(_ callID: CallID) {
        // Further calls are found by the regular searches.
        if hints.count < PushBounds.hints { hints.append(callID) }
    }

    /// Takes up the calls whose waiting time has ended.
    func wake() {
        guard nextWake <= now else { return }
        for callID in wakes.filter({ $0.value <= now }).keys.sorted() {
            wakes[callID] = nil
            hint(callID)
        }
        nextWake = wakes.values.min() ?? .max
    }

    func followHints() {
        guard !hints.isEmpty, !isFollowingHints else { return }
        let near = Array(hints.prefix(256))
        hints.removeFirst(near.count)
        isFollowingHints = true
        start { [self] () async throws(StoreError) in
            _ = try await take(near: near)
        } done: { [self] _ in
            isFollowingHints = false
        }
    }

    /// Takes due calls from the queue. Returns whether more calls may be due.
    func take(near: [CallID]?) async throws(StoreError) -> Bool {
        let room = min(PushBounds.held - held.count, settings.inOneStep)
        guard room > 0, !isStopping else { return false }
        let (began, taker) = (now, worker)
        let taken: [CallID]
        do throws(StoreError) {
            taken = try await store.takePushes(by: taker, limit: room, near: near)
        } catch {
            // The store may have given this worker calls of which the worker does not know. Such calls would stay held
            // as long as the worker's lease is renewed, so the worker continues under a new name.
            if taker == worker { becomeAnother() }
            throw error
        }
        guard taker == worker, !taken.isEmpty else { return false }
        // While the worker holds other calls, its lease may have begun earlier.
        if held.isEmpty { sureUntil = began + WorkerLease.life }
        for callID in taken {
            held[callID] = LeasedCall(
                callID, by: taker, attempts: remembered.removeValue(forKey: callID) ?? [:], nextLook: now)
            wakes[callID] = nil
        }
        look()
        return taken.count >= room
    }

    func look() {
        let ready = held.values.filter { call in
            guard !call.isLooking, !call.isSettling else { return false }
            // If the call were released earlier, a push might leave here while another worker sends it too.
            if isStopping { return call.leavesUntil <= now }
            return call.nextLook <= now || call.isHinted
        }
        // Sorted, because the order of a dictionary differs in each run.
        for call in ready.sorted(by: { $0.callID < $1.callID }) {
            call.isLooking = true
            call.isHinted = false
            call.nextLook = now + PushBounds.look
            start { [self] () async throws(StoreError) in
                guard isStopping else { return try await look(at: call) }
                call.takeBack()
                try await write(call)
            } done: { [self] isDone in
                call.isLooking = false
                looked(at: call, isDone)
            }
        }
    }

    /// Decides whether a call stays held after a look, or is released.
    private func looked(at call: LeasedCall, _ isDone: Bool) {
        for (id, attempt) in call.attempts {
            guard !attempt.isUnderWay, let slot = attempt.slot else { continue }
            call.attempts[id]?.slot = nil
            release(slot)
        }
        guard held[call.callID] === call else { return }
        if isStopping {
            if call.leavesUntil <= now { letGo(call, again: 0) }
            return
        }
        guard isDone else { return call.nextLook = now + PushBounds.pause }
        guard !call.isHinted, !call.attempts.contains(where: \.value.isUnderWay) else { return }
        // The tried pushes have ended at once, so the remaining pushes follow now.
        if call.hasMore, call.attempts.isEmpty { return call.nextLook = now }
        var moments = call.attempts.values.map(\.notBefore)
        if let due = call.due { moments.append(now + max(0, due - storeTime)) }
        guard let next = moments.min() else { return letGo(call, again: nil) }
        if !call.attempts.isEmpty, next <= now + PushBounds.patience, held.count <= PushBounds.heldIdle {
            call.nextLook = max(now, min(call.nextLook, next))
            // The event that the call waits for will hint at the call.
            if next <= now { call.nextLook = now + PushBounds.look }
        } else {
            takeBack(call, again: next <= now ? PushBounds.search : next - now)
        }
    }

    /// Releases a call with pushes that have not left, for `again` milliseconds.
    private func takeBack(_ call: LeasedCall, again: Milliseconds) {
        call.takeBack()
        guard !call.notes.isEmpty else { return letGo(call, again: again) }
        call.isLooking = true
        start { [self] () async throws(StoreError) in
            try await write(call)
        } done: { [self] isDone in
            call.isLooking = false
            guard held[call.callID] === call else { return }
            if isDone { letGo(call, again: again) } else { call.nextLook = now + PushBounds.pause }
        }
    }

    private func letGo(_ call: LeasedCall, again: Milliseconds?) {
        call.isSettling = true
        slots.forget(call.callID)
        waitingForToken.remove(call.callID)
        settlements.append(PushSettlement(call.callID, again: again))
    }

    /// Settles the calls that were released meanwhile, in one step of the store.
    func settle() {
        guard !isSettling, !settlements.isEmpty, nextSettling <= now else { return }
        isSettling = true
        let batch = Array(settlements.prefix(settings.inOneStep))
        settlements.removeFirst(batch.count)
        let settler = worker
        start { [self] () async throws(StoreError) in
            do throws(StoreError) {
                let settled = try await store.settlePushes(batch, by: settler)
                guard settler == worker else { return }
                for (settlement, settled) in zip(batch, settled) { go(on: settled, settlement) }
            } catch {
                // Whether the calls were settled is unknown. If they were, this worker may hold them again already, and
                // a repeated settlement would release them too early.
                if settler == worker { becomeAnother() }
                nextSettling = now + PushBounds.pause
                throw error
            }
        } done: { [self] _ in
            isSettling = false
        }
    }

    private func go(on settled: PushSettled, _ settlement: PushSettlement) {
        // The call may have been entered and taken again before this answer came; then `held` contains another
        // instance, which stays.
        guard let call = held[settlement.callID], call.isSettling else { return }
        call.isSettling = false
        if settled == .again, !isStopping {
            call.nextLook = now
            return
        }
        held[settlement.callID] = nil
        guard settled == .done, let again = settlement.again, !isStopping else { return }
        remember(call)
        let time = now + again + PushBounds.clockError
        if wakes.count < PushBounds.remembered {
            wakes[call.callID] = time
            nextWake = min(nextWake, time)
        }
    }

    private func remember(_ call: LeasedCall) {
        guard !call.attempts.isEmpty else { return }
        if remembered.count >= PushBounds.remembered {
            remembered = remembered.filter { $0.value.values.contains { $0.expiresAt > storeTime } }
            // Without the remembered attempts, these pushes are tried as if for the first time.
            if remembered.count >= PushBounds.remembered { remembered = [:] }
        }
        remembered[call.callID] = call.attempts
    }

    func release(_ slot: PushProvider) {
        if let callID = slots.release(slot) { held[callID]?.isHinted = true }
    }
}
