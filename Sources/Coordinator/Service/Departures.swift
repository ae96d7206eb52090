import CallCore
import CallStore
import SignalingProtocol

/// Devices that went offline, or were lost: all of a round together (docs/protocol.md, section 1).
struct Departures {
    let serving: Serving

    private var store: any PresenceStore { serving.store }

    /// At most one change of each device. A goodbye that is lost is bounded by the invitation's timeout. `isRepeated`: the calls are told also
    /// of sessions that had ended before. Whether all calls were told.
    func serve(
        _ changes: [(session: DeviceSession, reason: PresenceMessage.OfflineReason)], isRepeated: Bool = false
    ) async throws(StoreError) -> Bool {
        guard !changes.isEmpty else { return true }
        let policy = serving.settings.presence
        let hasEnded = try await store.wentOffline(changes.map(\.session), policy: policy)
        let gone = zip(changes, hasEnded).filter { isRepeated || $0.1 }.map(\.0)
        for (change, hasEnded) in zip(changes, hasEnded) {
            serving.context.counters.add(.presence, hasEnded ? change.reason.rawValue : "stale")
        }
        guard !gone.isEmpty else { return true }
        let calls = try await UserCalls(serving: serving).live(
            of: gone.map(\.session.device.userID), limit: ServiceBounds.callsPerWelcome)
        var areAllTold = true
        var works = WorkList<CallID, CallEvent>()
        for (change, callIDs) in zip(gone, calls) {
            for callID in callIDs { works.append(.wentOffline(change.session.device, change.reason), to: callID) }
            guard works.works.count >= ServiceBounds.callsPerPresence else { continue }
            if await !CallRounds(serving: serving).serve(works.works).isEmpty { areAllTold = false }
            works = WorkList()
        }
        if await !CallRounds(serving: serving).serve(works.works).isEmpty { areAllTold = false }
        return areAllTold
    }
}
