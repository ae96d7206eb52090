import CallCore
import CallStore
import SignalingProtocol

/// Serves the devices that went offline or were lost, all devices of a batch together (docs/protocol.md, section 1).
struct Departures {
    let serving: Serving

    private var store: any PresenceStore { serving.store }

    /// Ends the sessions in `changes`, at most one change per device, and tells the users' calls. Returns whether all
    /// calls were told. With `isRepeated`, calls are told also of sessions that had ended before. When an offline
    /// message is lost, the invitation's timeout bounds the harm.
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
