import CallCore
import CallStore
import SignalingProtocol

/// The order of a batch: first presence, then calls and peer messages, then requests about users. The messages of each
/// part are published before the next part begins, so that no device waits for the requests of others.
extension BatchService {
    func serveBatch(_ batch: Batch) async {
        do throws(StoreError) {
            // The requests before this batch may have taken long.
            try await readClock()
            if !batch.presence.isEmpty {
                await servePresence(batch.presence)
                flush()
                try await readClock()
            }
        } catch {
            context.failed(error)
            batch.calls.works.forEach(answerUnavailable)
            batch.messages.works.forEach(answerUnavailable)
            batch.requests.forEach(answerUnavailable)
            return flush()
        }
        if context.budgets.isPacing {
            for (id, device) in batch.acknowledgments { context.budgets.acknowledged(id, by: device) }
        }
        await serveCalls(batch.calls.works, of: batch.senders.unique, afterEachAttempt: flush)
        await serveMessages(batch.messages.works)
        flush()
        if settings.isRouting { await remind(batch.senders.unique) }
        await serveReleased()
        await serveUserRequests(batch.requests)
    }

    /// Serves departures, and then arrivals. When the store fails for one part, the other part is served all the same.
    private func servePresence(_ changes: [PresenceChange]) async {
        do throws(StoreError) {
            _ = try await serveDepartures(
                changes.compactMap { change in
                    if case .offline(let reason) = change.status { (change.session, reason) } else { nil }
                })
        } catch {
            context.failed(error)
        }
        do throws(StoreError) {
            try await serveArrivals(changes.filter { $0.status == .online })
        } catch {
            context.failed(error)
        }
    }

    /// Resends the deliveries that were held back from devices that have acknowledged a delivery in this batch.
    private func serveReleased() async {
        let released = context.budgets.takeReleased()
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
        await serveCalls(calls.works)
        await serveMessages(messages.works)
        flush()
    }

    // MARK: Requests about users

    /// Serves the requests of each user in their order, and the requests of different users concurrently.
    private func serveUserRequests(_ requests: [ReceivedRequest]) async {
        let users = requests.map(\.device.userID).unique
        guard users.count > 1 else { return await serveInOrder(requests) }
        // All tasks run on the coordinator's own thread, never in parallel.
        nonisolated(unsafe) let (context, publish) = (context, publish)
        let now = now
        await withTaskGroup(of: Void.self) { group in
            for user in users {
                let own = requests.filter { $0.device.userID == user }
                group.addTask { await BatchService(context, now: now, publish: publish).serveInOrder(own) }
            }
        }
    }

    private func serveInOrder(_ requests: [ReceivedRequest]) async {
        for request in requests {
            await serveUserRequest(request)
            flush()
        }
    }
}
