import CallCore
import CallStore
import SignalingProtocol
import Support

/// Serves the devices that came online, and the devices that went offline or were lost (docs/protocol.md, section 1):
/// all devices of a batch together, since after an interruption all devices come at once.
extension BatchService {
    // MARK: Departures

    /// Ends the sessions in `changes`, at most one change per device, and tells the users' calls. Returns whether all
    /// calls were told. With `isRepeated`, calls are told also of sessions that had ended before. When an offline
    /// message is lost, the invitation's timeout bounds the harm.
    func serveDepartures(
        _ changes: [(session: DeviceSession, reason: PresenceMessage.OfflineReason)], isRepeated: Bool = false
    ) async throws(StoreError) -> Bool {
        guard !changes.isEmpty else { return true }
        let policy = settings.presence
        let hasEnded = try await store.wentOffline(changes.map(\.session), policy: policy)
        let gone = zip(changes, hasEnded).filter { isRepeated || $0.1 }.map(\.0)
        for (change, hasEnded) in zip(changes, hasEnded) {
            context.counters.add(.presence, hasEnded ? change.reason.rawValue : "stale")
        }
        return try await tellCalls(of: gone.map { ($0.session.device, $0.reason) })
    }

    /// Tells the calls of the devices' users that the devices went offline; `since` is the time when their broker was
    /// last heard, for devices that were lost with it. Returns whether all calls were told.
    func tellCalls(
        of gone: [(device: DeviceAddress, reason: PresenceMessage.OfflineReason)], since: Milliseconds? = nil
    ) async throws(StoreError) -> Bool {
        guard !gone.isEmpty else { return true }
        let calls = try await liveCalls(of: gone.map(\.device.userID), limit: ServiceBounds.callsPerWelcome)
        var areAllTold = true
        var works = WorkList<CallID, CallEvent>()
        for ((device, reason), callIDs) in zip(gone, calls) {
            for callID in callIDs { works.append(.wentOffline(device, reason, since: since), to: callID) }
            guard works.works.count >= ServiceBounds.callsPerPresence else { continue }
            if await !serveCalls(works.works).isEmpty { areAllTold = false }
            works = WorkList()
        }
        if await !serveCalls(works.works).isEmpty { areAllTold = false }
        return areAllTold
    }

    // MARK: Arrivals

    /// Serves devices that came online, at most one change per device. A device publishes its presence again until the
    /// welcome.
    func serveArrivals(_ changes: [PresenceChange]) async throws(StoreError) {
        guard !changes.isEmpty else { return }
        let outcomes = try await store.cameOnline(changes.map(\.session), policy: settings.presence)
        var current: [PresenceChange] = []
        for (change, outcome) in zip(changes, outcomes) {
            context.counters.add(.presence, outcome.name)
            switch outcome {
            case .over: refuseOver(change.session)
            case .late: break
            case .current(let former):
                current.append(change)
                if let former { endTakenOver(former, by: change.session) }
            }
        }
        guard !current.isEmpty else { return }
        // The clock is read again: a new session must not begin before the calls that are to be delivered to the
        // device.
        try await readClock()
        var arrivals = try await readArrivals(current)
        for place in arrivals.indices where arrivals[place].omitted > 0 {
            guard try await tidyCalls(of: arrivals[place].device.userID) else { continue }
            arrivals[place] = try await readArrivals([arrivals[place].change])[0]
        }
        while !arrivals.isEmpty {
            var count = 0
            let some = arrivals.prefix { arrival in
                defer { count += arrival.undelivered.count }
                return count < ServiceBounds.callsPerPresence
            }
            arrivals.removeFirst(some.count)
            try await welcome(Array(some))
        }
    }

    /// Tells a device that its session has ended. A client that connects again with an old session and will cannot see
    /// otherwise why no welcome comes.
    private func refuseOver(_ session: DeviceSession) {
        let error = SignalingError(
            .sessionOver, "this session has ended: a connection has a session of its own, and names it in its will",
            session: session.id)
        refuse(error, session)
    }

    /// Tells a device's former session that the device has a newer session at another broker, so that the former
    /// connection ends. A single broker ends the connection itself.
    private func endTakenOver(_ former: DeviceSession, by newer: DeviceSession) {
        var error = SignalingError(
            .sessionOver, "the device has a newer session at another broker", session: former.id, reason: "takenOver")
        error.newerSession = newer.id
        refuse(error, former)
    }

    /// Reminds devices of their presence: devices that sent a message although their presence says that they are
    /// offline or at another broker, and devices that are heard again since their broker is back. The reminder is a
    /// welcome for a session that no device has, so that the device publishes its presence again, and then gets the
    /// events that it missed. The reminder itself makes no device online: the message may have crossed the end of its
    /// session.
    func remind(_ senders: [DeviceAddress]) async {
        let changes = senders.compactMap { device -> PresenceChange? in
            guard let known = presence[device.userID]?.first(where: { $0.device == device }),
                let broker = context.lastHeard.brokerToRemind(
                    device, known, isBack: returned.contains(device), settings.brokers, now: now)
            else { return nil }
            return PresenceChange(
                session: DeviceSession(device, id: Self.nobodysSession, broker: settings.brokers[broker]),
                status: .online, tokenExpiresAt: nil)
        }
        guard !changes.isEmpty else { return }
        do throws(StoreError) {
            try await welcome(try await readArrivals(changes), isReminder: true)
        } catch {
            context.failed(error)
        }
        flush()
    }

    func refuse(_ error: SignalingError, _ session: DeviceSession) {
        send(context.encoder.refusal(error, topic: settings.topics.down(session.device), broker(of: session)))
    }

    private func broker(of session: DeviceSession) -> BrokerSet {
        session.broker.flatMap { settings.brokers.firstIndex(of: $0) }.map { BrokerSet($0) } ?? .all
    }

    private static let nobodysSession = "unknown"

    private func readArrivals(_ changes: [PresenceChange]) async throws(StoreError) -> [Arrival] {
        let queries = Arrival.queries(changes.map(\.session.device.userID), settings, now: now)
        let answers = try await store.read(queries)
        for (query, answer) in zip(queries, answers) {
            if case .devices(let user) = query { learn(answer.devices, of: user) }
        }
        return Arrival.all(changes, answers, now: now)
    }

    /// Welcomes devices, and then sends their deliveries. A reminder has no consequence but the welcome.
    private func welcome(_ arrivals: [Arrival], isReminder: Bool = false) async throws(StoreError) {
        let callIDs = arrivals.flatMap(\.live).unique
        var known: [CallID: Call] = [:]
        for stored in try await callIDs.isEmpty ? [] : store.load(callIDs) {
            if case .call(let call)? = stored?.record { known[call.callID] = call }
        }
        // The lists are tidied before the first welcome is published: when the store fails here, no device is welcomed
        // and every device publishes its presence again.
        for arrival in arrivals where arrival.calls(known).count < arrival.live.count {
            _ = try await tidyCalls(of: arrival.device.userID)
        }
        let place = outbound.count
        var welcomed: [DeviceAddress] = []
        var works = WorkList<CallID, CallEvent>()
        var messages = WorkList<RecordID, MessageEvent>()
        for arrival in arrivals where !isWelcomedTooMuch(arrival.device.userID) {
            welcomed.append(arrival.device)
            if !isReminder { context.budgets.began(arrival.device) }
            let calls = arrival.calls(known)
            let wall = context.wall()
            let (payload, sessions) = arrival.welcome(
                calls, context.iceServers(arrival.device.userID, wall), mediaSessions(of: arrival.device, in: calls),
                settings, now: now,
                tokenExpiresAt: arrival.change.tokenExpiresAt.map { serviceTime(ofEnd: $0, wall) })
            context.budgets.charge(payload.count, to: .welcomeBytes(arrival.device.userID), now: now)
            send(
                OutboundMessage(
                    topic: settings.topics.down(arrival.device), payload: payload,
                    expirySeconds: ServiceBounds.messageExpirySeconds, brokers: broker(of: arrival.change.session)))
            for told in sessions {
                if let call = known[told.callID] { note(told.session, of: arrival.device, in: call) }
            }
            if isReminder { continue }
            let told = Set(calls.map(\.callID))
            for callID in arrival.undelivered {
                works.append(.cameOnline(arrival.device, isTold: told.contains(callID)), to: callID)
            }
            for id in arrival.messages { messages.append(.cameOnline(arrival.device), to: id) }
        }
        let open = await serveCalls(works.works)
        // A device without a welcome publishes its presence again, and its calls that could not be served now are
        // served then.
        let waiting = Set(open.flatMap { $0.events.compactMap(\.arrived) })
        withdraw(welcomed.indices.filter { waiting.contains(welcomed[$0]) }.map { place + $0 })
        await serveMessages(messages.works)
    }

    /// Converts the end of a token to the service's time. A token ends by the wall clock of the broker that checks the
    /// token; the device counts from the welcome's `serverTime`, in the store's time. When the two clocks differ by
    /// more than `ClockBounds.step`, the end is moved by their difference.
    private func serviceTime(ofEnd end: Int64, _ wall: WallTime) -> Milliseconds {
        let difference = now - wall.milliseconds
        guard abs(difference) > ClockBounds.step else { return end }
        let (time, isTooLarge) = end.addingReportingOverflow(difference)
        return isTooLarge ? end : max(0, time)
    }

    /// Whether the user's devices that came online were sent as many bytes as the limit allows. `Intake` checked the
    /// same limit, but welcomes earlier in the batch may have used up the limit since. The device is then not welcomed,
    /// and publishes its presence again.
    private func isWelcomedTooMuch(_ user: UserID) -> Bool {
        var counts = Counts()
        guard context.budgets.debt(.welcomeBytes(user), now, &counts) != nil else { return false }
        counts.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
        context.counters.add(counts)
        return true
    }
}

extension OnlineOutcome {
    /// The value of the label of `bellwire_presence_total`.
    fileprivate var name: String {
        switch self {
        case .current: "online"
        case .over: "over"
        case .late: "late"
        }
    }
}
