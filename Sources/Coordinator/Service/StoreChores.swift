import CallCore
import CallStore
import SignalingProtocol

/// The periodic work of a coordinator with the store, independent of any request.
struct StoreChores {
    let context: ServiceContext

    private var store: any CallStore { context.store }

    /// Reads the endpoints and the push policy, and bounds the outboxes and the push queue, also without workers. Must
    /// be called every second, since both settings change. Returns whether an outbox or the push queue was beyond its
    /// bounds, so that another call may find more.
    func readEndpoints() async -> Bool {
        var isBeyond = false
        do throws(StoreError) {
            for endpoint in try await context.readEndpoints() {
                let loss = try await store.bound(endpoint.name, endpoint.bounds)
                let name = endpoint.name.string
                if loss.becameDead > 0 { context.counters.add(.deadLetters, name, loss.becameDead) }
                if loss.deleted > 0 { context.counters.add(.revisionsDeleted, name, loss.deleted) }
                if loss != OutboxLoss() { isBeyond = true }
            }
            // In a deployment without pushes, no call waits for a push.
            if try await context.readPushPolicy() != nil {
                let forgotten = try await store.boundPushes()
                context.counters.add(.callsNotPushed, forgotten)
                if forgotten > 0 { isBeyond = true }
            }
        } catch {
            context.failed(error)
        }
        return isBeyond
    }

    /// Reads the settings of administrators, and signs out users who were disabled since the last reading: until now
    /// this coordinator may have served them. The first reading signs out all disabled users, since no coordinator may
    /// have been there when they were disabled. Returns whether the disabled users have changed, and the messages to
    /// publish.
    func readAdminSettings() async -> (isChanged: Bool, messages: [OutboundMessage]) {
        do throws(StoreError) {
            let found = try await store.adminSettings()
            if let level = context.logLevelWatch.newLevel(in: found) { context.onLogLevel(level) }
            let former = context.disabledUsers
            context.disabledUsers = found.disabledUsers
            context.disabledUsersReadAt = context.stopwatch()
            context.usersToKeepOut.formUnion(found.disabledUsers.subtracting(former ?? []))
            context.usersToKeepOut.formIntersection(found.disabledUsers)
            // A user who was disabled just now does not wait behind the users of the first reading.
            let new = former.map { found.disabledUsers.subtracting($0) } ?? []
            return (former != found.disabledUsers, await keepOut(first: new))
        } catch {
            context.failed(error)
            return (false, [])
        }
    }

    /// Signs out the users who were disabled, a bounded number at a time. The others, and users whom the store did not
    /// let sign out, follow after the next reading.
    private func keepOut(first: Set<UserID>) async -> [OutboundMessage] {
        let service = BatchService(context)
        let users = first.sorted() + context.usersToKeepOut.subtracting(first).sorted()
        for user in users.prefix(ServiceBounds.signOutsPerReading) {
            do throws(StoreError) {
                try await service.keepOut(user)
                context.usersToKeepOut.remove(user)
            } catch {
                context.failed(error)
                // A call of one user that could not be told holds up no other user.
                guard error.code == .unsettled else { break }
            }
        }
        return service.takeOutbound()
    }

    /// Counts live calls, ringing invitations and online devices of the deployment. After a failed count there are no
    /// numbers, since old numbers would hide the failure. A failed count does not make the coordinator unready, since
    /// only metrics use the numbers.
    func countLive(isTidying: Bool) async {
        do throws(StoreError) {
            context.liveCounts = try await store.liveCounts()
            if isTidying { try await store.tidyLiveCounts() }
        } catch {
            context.liveCounts = nil
        }
    }

    /// Checks whether a shared store answers and can be written.
    func lookAtStore() async {
        do throws(StoreError) {
            context.health.answered(isWrite: try await store.lookAtClock())
        } catch {
            context.failed(error)
        }
    }

    /// Removes records after the end of their retention. Returns whether more may be left.
    func clean() async -> Bool {
        do throws(StoreError) {
            let removed = try await store.clean(limit: ServiceBounds.recordsPerCleaning)
            context.health.answered(isWrite: !store.isShared)
            context.counters.add(.recordsCleaned, removed)
            return removed == ServiceBounds.recordsPerCleaning
        } catch {
            context.failed(error)
            return false
        }
    }

    /// Reports the brokers from which this coordinator has heard since its last report, and how many milliseconds ago.
    /// Returns whether the report was taken.
    func reportBrokers(_ heard: [(broker: BrokerIndex, age: Milliseconds)]) async -> Bool {
        let settings = context.settings
        var report = BrokerReport(
            coordinator: settings.coordinator, patience: max(settings.calls.callerGrace, ServiceBounds.brokerPatience),
            memory: 2 * settings.presence.lease)
        report.heard = heard.map { (settings.brokers[$0.broker], $0.age) }
        report.finished = context.rollCalls.finished
        do throws(StoreError) {
            let sightings = try await store.report(report)
            context.rollCalls.adopt(sightings, of: report.coordinator)
            context.awayBrokers = sightings.away
            return true
        } catch {
            context.failed(error)
            return false
        }
    }

    /// Whether this coordinator has to go through the devices of a broker.
    var hasRollCall: Bool { context.rollCalls.next != nil }

    /// Serves a page of a roll call. Returns the messages to publish, and the milliseconds until the next page.
    func callRoll(
        _ canReach: (BrokerIndex) -> Bool
    ) async -> (messages: [OutboundMessage], pause: Milliseconds) {
        let service = BatchService(context)
        let pause = await service.callRoll(canReach)
        return (service.takeOutbound(), pause)
    }

    func writeTraces() async { await Timelines(context: context).write() }

    /// Whether timeline entries wait to be written, or were dropped.
    var hasTraces: Bool { context.recorder.hasWaiting }

    var hasUsage: Bool { context.usage.hasWaiting }

    /// Whether so many timeline entries wait that they should be written before more come.
    var hasManyTraces: Bool { context.recorder.waitingCount > TraceRecorder.capacity / 4 }

    /// Writes how many bytes are kept because of users. No request waits for this write, and bytes that cannot be
    /// written are not counted.
    func writeUsage() async {
        let usage = context.usage.take()
        guard !usage.isEmpty, let now = store.time, context.settings.quotas.storedBytes > 0 else { return }
        do throws(StoreError) {
            try await store.charge(KeptBytes(context.settings, now: now).charges(usage))
        } catch {
            context.failed(error)
        }
    }
}
