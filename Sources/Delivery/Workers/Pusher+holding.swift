import CallCore
import CallStore
import SignalingProtocol

/// The taking and releasing of calls.
extension Pusher {
    func hint(_ callID: CallID) {
        // Further calls are found by the regular searches.
        if state.hints.count < LeasedWorkerBounds.hints { state.hints.append(callID) }
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

    func claim(near hints: [CallID]) async throws(StoreError) { _ = try await take(near: hints) }

    /// Takes due calls from the queue. Returns whether more calls may be due.
    func take(near: [CallID]?) async throws(StoreError) -> Bool {
        let claimed = try await claim(room: PushBounds.held - held.count) {
            (worker, limit) async throws(StoreError) in
            try await store.takePushes(by: worker, limit: limit, near: near)
        }
        guard let claimed else { return false }
        // While the worker holds other calls, its lease may have begun earlier.
        if held.isEmpty { state.sureUntil = claimed.began + WorkerLease.life }
        for callID in claimed.claims {
            held[callID] = LeasedCall(
                callID, by: worker, pending: remembered.removeValue(forKey: callID) ?? [:], nextLook: now)
            wakes[callID] = nil
        }
        look()
        return claimed.isFull
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
        for (id, pending) in call.pending {
            guard !pending.isUnderWay, let slot = pending.slot else { continue }
            call.pending[id]?.slot = nil
            release(slot)
        }
        guard held[call.callID] === call else { return }
        if isStopping {
            if call.leavesUntil <= now { letGo(call, again: 0) }
            return
        }
        guard isDone else { return call.nextLook = now + LeasedWorkerBounds.pause }
        guard !call.isHinted, !call.pending.contains(where: \.value.isUnderWay) else { return }
        // The tried pushes have ended at once, so the remaining pushes follow now.
        if call.hasMore, call.pending.isEmpty { return call.nextLook = now }
        var moments = call.pending.values.map(\.notBefore)
        if let due = call.due { moments.append(now + max(0, due - storeTime)) }
        guard let next = moments.min() else { return letGo(call, again: nil) }
        if !call.pending.isEmpty, next <= now + PushBounds.patience, held.count <= PushBounds.heldIdle {
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
            if isDone { letGo(call, again: again) } else { call.nextLook = now + LeasedWorkerBounds.pause }
        }
    }

    private func letGo(_ call: LeasedCall, again: Milliseconds?) {
        call.isSettling = true
        slots.forget(call.callID)
        waitingForToken.remove(call.callID)
        state.settlements.append(PushSettlement(call.callID, again: again))
    }

    func settle(_ settlements: [PushSettlement], by worker: WorkerID) async throws(StoreError) -> [PushSettled] {
        try await store.settlePushes(settlements, by: worker)
    }

    func go(on settled: PushSettled, _ settlement: PushSettlement) {
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
        guard !call.pending.isEmpty else { return }
        if remembered.count >= PushBounds.remembered {
            remembered = remembered.filter { $0.value.values.contains { $0.expiresAt > storeTime } }
            // A forgotten push is tried as if for the first time.
            if remembered.count >= PushBounds.remembered { remembered = [:] }
        }
        remembered[call.callID] = call.pending
    }

    func release(_ slot: PushProvider) {
        if let callID = slots.release(slot) { held[callID]?.isHinted = true }
    }
}
