import CallCore
import CallStore
import SignalingProtocol

/// Serves a round: who came and went, then what happened to calls and peer messages, then what users ask for besides. What is done is
/// told before the rest is begun: nobody in a round waits for what others have asked for.
struct Rounds {
    let serving: Serving
    /// Is given what is to be published.
    let tell: ([OutboundMessage]) -> Void

    func serve(_ round: Round) async {
        do throws(StoreError) {
            // The rounds before may have taken their time.
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

    /// Sends again what was held back from devices that have acknowledged something in this round.
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

    // MARK: What is about no single call

    /// Those of a user in their order, and those of different users side by side.
    private func serve(_ requests: [ReceivedRequest]) async {
        let users = requests.map(\.device.userID).unique
        guard users.count > 1 else { return await serveInOrder(requests, serving) }
        // All run in the coordinator's own thread, one at a time.
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
