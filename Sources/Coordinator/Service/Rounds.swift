import CallCore
import CallStore
import SignalingProtocol

/// Serves a batch: first presence, then calls and peer messages, then requests about users. The messages of each part
/// are published before the next part begins, so that no device waits for the requests of others.
struct Rounds {
    let serving: Serving
    /// Publishes messages.
    let tell: ([OutboundMessage]) -> Void

    func serve(_ round: Round) async {
        do throws(StoreError) {
            // The requests before this batch may have taken long.
            try await serving.readClock()
            if !round.presence.isEmpty {
                await serve(round.presence)
                tell(serving.finish())
                try await serving.readClock()
            }
        } catch {
            serving.context.failed(error)
            round.calls.works.forEach(serving.answerUnavailable)
            round.messages.works.forEach(serving.answerUnavailable)
            round.requests.forEach(serving.answerUnavailable)
            return tell(serving.finish())
        }
        if serving.context.budgets.isPacing {
            for (id, device) in round.acknowledgments { serving.context.budgets.acknowledged(id, by: device) }
        }
        await CallRounds(serving: serving).serve(round.calls.works, of: round.senders.unique) { tell(serving.finish()) }
        await MessageRounds(serving: serving).serve(round.messages.works)
        tell(serving.finish())
        await serveReleased()
        await serve(round.requests)
    }

    /// Resends the deliveries that were held back from devices that have acknowledged a delivery in this batch.
    private func serveReleased() async {
        let released = serving.context.budgets.takeReleased()
        guard !released.isEmpty else { return }
        var calls = WorkList<CallID, CallEvent>()
        var messages = WorkList<RecordID, MessageEvent>()
        for (id, target, device) in released {
            if let callID = id.callID {
                calls.append(.released(device), to: callID)
            } else {
                messages.append(.released(target.device == nil ? nil : device), to: id)
            }
        }
        await CallRounds(serving: serving).serve(calls.works)
        await MessageRounds(serving: serving).serve(messages.works)
        tell(serving.finish())
    }

    private func serve(_ changes: [PresenceChange]) async {
        do throws(StoreError) {
            _ = try await Departures(serving: serving).serve(
                changes.compactMap { change in
                    if case .offline(let reason) = change.status { (change.session, reason) } else { nil }
                })
        } catch {
            serving.context.failed(error)
        }
        do throws(StoreError) {
            try await Arrivals(serving: serving).serve(changes.filter { $0.status == .online })
        } catch {
            serving.context.failed(error)
        }
    }

    // MARK: Requests about users

    /// Serves the requests of each user in their order, and the requests of different users concurrently.
    private func serve(_ requests: [ReceivedRequest]) async {
        let users = requests.map(\.device.userID).unique
        guard users.count > 1 else { return await serveInOrder(requests, serving) }
        // All tasks run on the coordinator's own thread, never in parallel.
        nonisolated(unsafe) let (rounds, context) = (self, serving.context)
        let now = serving.now
        await withTaskGroup(of: Void.self) { group in
            for user in users {
                let own = requests.filter { $0.device.userID == user }
                group.addTask { await rounds.serveInOrder(own, Serving(context, now: now)) }
            }
        }
    }

    private func serveInOrder(_ requests: [ReceivedRequest], _ serving: Serving) async {
        for request in requests {
            await UserRequests(serving: serving).serve(request)
            tell(serving.finish())
        }
    }
}
