import CallCore
import CallStore
import SignalingProtocol

/// Taking calls, and letting them go.
extension Pusher {
    func hint(_ callID: CallID) {
        // Beyond that it is found by looking everywhere.
        if hints.count < Bounds.hints { hints.append(callID) }
    }

    /// Calls that were let go until now.
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

    /// Whether there may be more.
    func take(near: [CallID]?) async throws(StoreError) -> Bool {
        let room = min(Bounds.held - held.count, settings.inOneStep)
        guard room > 0, !isStopping else { return false }
        let (began, taker) = (now, worker)
        let taken: [CallID]
        do throws(StoreError) {
            taken = try await store.takePushes(by: taker, limit: room, near: near)
        } catch {
            // It may have taken what it does not know of, and would hold it for as long as it lives.
            if taker == worker { becomeAnother() }
            throw error
        }
        guard taker == worker, !taken.isEmpty else { return false }
        // Where it holds others it may have a lease that began earlier.
        if held.isEmpty { sureUntil = began + WorkerLease.life }
        for callID in taken {
            held[callID] = HeldCall(
                callID, by: taker, attempts: remembered.removeValue(forKey: callID) ?? [:], nextLook: now)
            wakes[callID] = nil
        }
        look()
        return taken.count >= room
    }

    func look() {
        let ready = held.values.filter { call in
            guard !call.isLooking, !call.isSettling else { return false }
            // Let go before, a push might leave here while somebody else sends it.
            if isStopping { return call.leavesUntil <= now }
            return call.nextLook <= now || call.isHinted
        }
        // The same in every run: a dictionary has no order of its own.
        for call in ready.sorted(by: { $0.callID < $1.callID }) {
            call.isLooking = true
            call.isHinted = false
            call.nextLook = now + Bounds.look
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

    /// What is to become of a call that was looked at.
    private func looked(at call: HeldCall, _ isDone: Bool) {
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
        guard isDone else { return call.nextLook = now + Bounds.pause }
        guard !call.isHinted, !call.attempts.contains(where: \.value.isUnderWay) else { return }
        // What was tried has come to its end at once: the others follow.
        if call.hasMore, call.attempts.isEmpty { return call.nextLook = now }
        var moments = call.attempts.values.map(\.notBefore)
        if let due = call.due { moments.append(now + max(0, due - storeTime)) }
        guard let next = moments.min() else { return letGo(call, again: nil) }
        if !call.attempts.isEmpty, next <= now + Bounds.patience, held.count <= Bounds.heldIdle {
            call.nextLook = max(now, min(call.nextLook, next))
            // For what it waits for, it is called.
            if next <= now { call.nextLook = now + Bounds.look }
        } else {
            takeBack(call, again: next <= now ? Bounds.search : next - now)
        }
    }

    /// Lets a call go of which something is still to leave.
    private func takeBack(_ call: HeldCall, again: Milliseconds) {
        call.takeBack()
        guard !call.notes.isEmpty else { return letGo(call, again: again) }
        call.isLooking = true
        start { [self] () async throws(StoreError) in
            try await write(call)
        } done: { [self] isDone in
            call.isLooking = false
            guard held[call.callID] === call else { return }
            if isDone { letGo(call, again: again) } else { call.nextLook = now + Bounds.pause }
        }
    }

    private func letGo(_ call: HeldCall, again: Milliseconds?) {
        call.isSettling = true
        slots.forget(call.callID)
        waitingForToken.remove(call.callID)
        settlements.append(PushSettlement(call.callID, again: again))
    }

    /// All that has come meanwhile in one step.
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
                // Whether it was settled is not known. If it was, the call may be held again already, and would be let go meanwhile.
                if settler == worker { becomeAnother() }
                nextSettling = now + Bounds.pause
                throw error
            }
        } done: { [self] _ in
            isSettling = false
        }
    }

    private func go(on settled: PushSettled, _ settlement: PushSettlement) {
        // Entered anew, the call may have been taken again before this answer came: then it is held as another one.
        guard let call = held[settlement.callID], call.isSettling else { return }
        call.isSettling = false
        if settled == .again, !isStopping {
            call.nextLook = now
            return
        }
        held[settlement.callID] = nil
        guard settled == .done, let again = settlement.again, !isStopping else { return }
        remember(call)
        let time = now + again + Bounds.clockError
        if wakes.count < Bounds.remembered {
            wakes[call.callID] = time
            nextWake = min(nextWake, time)
        }
    }

    private func remember(_ call: HeldCall) {
        guard !call.attempts.isEmpty else { return }
        if remembered.count >= Bounds.remembered {
            remembered = remembered.filter { $0.value.values.contains { $0.expiresAt > storeTime } }
            // Others are tried as if they had not been tried before.
            if remembered.count >= Bounds.remembered { remembered = [:] }
        }
        remembered[call.callID] = call.attempts
    }

    func release(_ slot: PushProvider) {
        if let callID = slots.release(slot) { held[callID]?.isHinted = true }
    }
}
