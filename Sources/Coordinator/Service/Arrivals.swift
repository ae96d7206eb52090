import CallCore
import CallStore
import SignalingProtocol
import Support

/// Serves the devices that came online, all devices of a batch together, since after an interruption all devices come
/// at once (docs/protocol.md, section 1).
struct Arrivals {
    let serving: Serving

    private var store: any RecordStore & PresenceStore { serving.store }
    private var context: ServiceContext { serving.context }
    private var settings: ServiceSettings { serving.settings }

    /// Serves at most one change per device. A device publishes its presence again until the welcome.
    func serve(_ changes: [PresenceChange]) async throws(StoreError) {
        guard !changes.isEmpty else { return }
        let outcomes = try await store.cameOnline(changes.map(\.session), policy: settings.presence)
        let current = zip(changes, outcomes).filter { $0.1 == .current }.map(\.0)
        for (change, outcome) in zip(changes, outcomes) {
            context.counters.add(.presence, outcome == .current ? "online" : "over")
            if outcome == .over { tellOver(change.session) }
        }
        guard !current.isEmpty else { return }
        // The clock is read again: a new session must not begin before the calls that are to be delivered to the
        // device.
        try await serving.readClock()
        var arrivals = try await lookAround(current)
        for place in arrivals.indices where arrivals[place].omitted > 0 {
            guard try await UserCalls(serving: serving).tidy(arrivals[place].device.userID) else { continue }
            arrivals[place] = try await lookAround([arrivals[place].change])[0]
        }
        while !arrivals.isEmpty {
            var count = 0
            let some = arrivals.prefix { arrival in
                defer { count += arrival.owing.count }
                return count < ServiceBounds.callsPerPresence
            }
            arrivals.removeFirst(some.count)
            try await welcome(Array(some))
        }
    }

    /// Tells a device that its session has ended. A client that connects again with an old session and will cannot see
    /// otherwise why no welcome comes.
    private func tellOver(_ session: DeviceSession) {
        let error = SignalingError(
            .sessionOver, "this session has ended: a connection has a session of its own, and names it in its will",
            session: session.id)
        serving.publish(context.encoder.refusal(error, topic: settings.topics.down(session.device)))
    }

    private func lookAround(_ changes: [PresenceChange]) async throws(StoreError) -> [Arrival] {
        let lookup = Arrival.lookup(changes.map(\.session.device.userID), settings, now: serving.now)
        return Arrival.all(changes, try await store.read(lookup), now: serving.now)
    }

    /// Welcomes devices, and then sends their deliveries.
    private func welcome(_ arrivals: [Arrival]) async throws(StoreError) {
        let callIDs = arrivals.flatMap(\.live).unique
        var known: [CallID: Call] = [:]
        for stored in try await callIDs.isEmpty ? [] : store.load(callIDs) {
            if case .call(let call)? = stored?.record { known[call.callID] = call }
        }
        // The lists are tidied before the first welcome is published: when the store fails here, no device is welcomed
        // and every device publishes its presence again.
        for arrival in arrivals where arrival.calls(known).count < arrival.live.count {
            _ = try await UserCalls(serving: serving).tidy(arrival.device.userID)
        }
        let place = serving.outbox.count
        var welcomed: [DeviceAddress] = []
        var works = WorkList<CallID, CallEvent>()
        var messages = WorkList<RecordID, MessageEvent>()
        for arrival in arrivals where !isWelcomedTooMuch(arrival.device.userID) {
            welcomed.append(arrival.device)
            context.budgets.began(arrival.device)
            let calls = arrival.calls(known)
            let wall = context.wall()
            let payload = arrival.welcome(
                calls, context.iceServers(arrival.device.userID, wall), settings, now: serving.now,
                tokenExpiresAt: arrival.change.tokenExpiresAt.map { serviceTime(ofEnd: $0, wall) })
            context.budgets.charge(payload.count, to: .welcomeBytes(arrival.device.userID), now: serving.now)
            serving.publish(
                OutboundMessage(
                    topic: settings.topics.down(arrival.device), payload: payload,
                    expirySeconds: ServiceBounds.messageExpirySeconds))
            let told = Set(calls.map(\.callID))
            for callID in arrival.owing {
                works.append(.cameOnline(arrival.device, isTold: told.contains(callID)), to: callID)
            }
            for id in arrival.messages { messages.append(.cameOnline(arrival.device), to: id) }
        }
        let open = await CallRounds(serving: serving).serve(works.works)
        // A device without a welcome publishes its presence again, and its calls that could not be served now are
        // served then.
        let waiting = Set(open.flatMap { $0.events.compactMap(\.arrived) })
        serving.withdraw(welcomed.indices.filter { waiting.contains(welcomed[$0]) }.map { place + $0 })
        await MessageRounds(serving: serving).serve(messages.works)
    }

    /// Converts the end of a token to the service's time. A token ends by the wall clock of the broker that checks the
    /// token; the device counts from the welcome's `serverTime`, in the store's time. When the two clocks differ by
    /// more than `ClockBounds.step`, the end is moved by their difference.
    private func serviceTime(ofEnd end: Int64, _ wall: WallTime) -> Milliseconds {
        let difference = serving.now - wall.milliseconds
        guard abs(difference) > ClockBounds.step else { return end }
        let (time, isTooLarge) = end.addingReportingOverflow(difference)
        return isTooLarge ? end : max(0, time)
    }

    /// Whether the user's devices that came online were sent as many bytes as the limit allows. `Intake` checked the
    /// same limit, but welcomes earlier in the batch may have used up the limit since. The device is then not welcomed,
    /// and publishes its presence again.
    private func isWelcomedTooMuch(_ user: UserID) -> Bool {
        var counts = Counts()
        guard context.budgets.debt(.welcomeBytes(user), serving.now, &counts) != nil else { return false }
        counts.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
        context.counters.add(counts)
        return true
    }
}
