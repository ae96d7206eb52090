import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Devices coming and going (docs/protocol.md, section 1): all of a round together, since after a break all devices come at once.
extension CallService {
    /// At most one change of each device.
    func servePresence(_ changes: [PresenceChange]) {
        guard !changes.isEmpty else { return }
        let gone = changes.compactMap { change -> Departure? in
            if case .offline(let reason) = change.status { (change.session, reason) } else { nil }
        }
        do throws(StoreError) {
            try wentOffline(gone)
        } catch {
            // A lost goodbye is bounded by the invitation's timeout.
            failed(error)
        }
        do throws(StoreError) {
            try cameOnline(changes.filter { $0.status == .online })
        } catch {
            // A device publishes its presence again until it is welcomed.
            failed(error)
        }
    }

    // MARK: Coming

    /// A device that is to be welcomed, with what it will be told of.
    private struct Arrival {
        let change: PresenceChange
        /// Live calls, as many as a welcome looks at, and how many more there are.
        let live: [CallID]
        let omitted: Int
        /// All calls of which something may be owed.
        let owing: [CallID]
        /// Waiting messages, when a session begins.
        let messages: [RecordID]

        var device: DeviceAddress { change.session.device }
    }

    private func cameOnline(_ changes: [PresenceChange]) throws(StoreError) {
        guard !changes.isEmpty else { return }
        let outcomes = try store.cameOnline(changes.map(\.session), policy: settings.presence)
        let current = zip(changes, outcomes).filter { $0.1 == .current }.map(\.0)
        for (change, outcome) in zip(changes, outcomes) {
            counters.add(.presence, outcome == .current ? "online" : "over")
            if outcome == .over { tellOver(change.session) }
        }
        guard !current.isEmpty else { return }
        // The clock is read again: a session that begins now must not lie before the calls that it is owed.
        readClock()
        if let clockFailure { throw clockFailure }
        var arrivals = try lookAround(current)
        let crowded = arrivals.indices.filter { arrivals[$0].omitted > 0 }
        for place in crowded where try tidyCalls(of: arrivals[place].device.userID) {
            arrivals[place] = try lookAround([arrivals[place].change])[0]
        }
        while !arrivals.isEmpty {
            var count = 0
            let some = arrivals.prefix { arrival in
                defer { count += arrival.owing.count }
                return count < ServiceBounds.callsPerPresence
            }
            arrivals.removeFirst(some.count)
            try welcome(Array(some))
        }
    }

    /// A client that connects again with the session and the will of before cannot know why nobody welcomes it.
    private func tellOver(_ session: DeviceSession) {
        let error = SignalingError(
            .sessionOver, "this session has ended: a connection has a session of its own, and names it in its will",
            session: session.id)
        outbox.append(encoder.refusal(error, topic: settings.topics.down(session.device)))
    }

    private func lookAround(_ changes: [PresenceChange]) throws(StoreError) -> [Arrival] {
        let users = changes.map(\.session.device.userID)
        let recent = now - settings.calls.endedRetention
        // One more than is told, to know whether there are more.
        let live = users.map { CallList.live(of: $0, limit: ServiceBounds.callsPerWelcome + 1) }
        let ended = users.map { CallList(of: $0, endedAfter: recent, limit: ServiceBounds.callsPerWelcome) }
        let findings = try store.read(
            Lookup(
                presence: users, calls: live + ended,
                messages: users.map { MessageList(for: $0, limit: ServiceBounds.messagesPerWelcome) }))
        return changes.indices.map { index in
            let change = changes[index]
            let live = findings.calls[index]
            let listed = Array(live.prefix(ServiceBounds.callsPerWelcome))
            // Messages at the beginning of a session, and not whenever presence is renewed.
            let known = findings.presence[index].first { $0.device == change.session.device }
            let isNew = known.map { $0.since + ServiceBounds.newSession > now } ?? false
            return Arrival(
                change: change, live: listed, omitted: live.count - listed.count,
                owing: listed + findings.calls[changes.count + index].filter { !live.contains($0) },
                messages: isNew ? findings.messages[index] : [])
        }
    }

    /// Welcomes devices, and then tells them what they are owed.
    private func welcome(_ arrivals: [Arrival]) throws(StoreError) {
        let callIDs = arrivals.flatMap(\.live).unique
        var calls: [CallID: Call] = [:]
        for stored in try callIDs.isEmpty ? [] : store.load(callIDs) {
            if case .call(let call)? = stored?.record { calls[call.callID] = call }
        }
        let place = outbox.count
        for arrival in arrivals {
            // The index may name a call into which the user was about to be invited when somebody died.
            let live = arrival.live.compactMap { calls[$0] }.filter {
                $0.isLive && $0.member(arrival.device.userID) != nil
            }
            if live.count < arrival.live.count { _ = try tidyCalls(of: arrival.device.userID) }
            let message = welcome(arrival, live.map(\.snapshot))
            budgets.charge(message.payload.count, to: .welcomeBytes(arrival.device.userID), now: now)
            outbox.append(message)
        }
        var works = WorkList<CallID, CallEvent>()
        var messages = WorkList<RecordID, MessageEvent>()
        for arrival in arrivals {
            for callID in arrival.owing { works.append(.cameOnline(arrival.device), to: callID) }
            for id in arrival.messages { messages.append(.cameOnline(arrival.device), to: id) }
        }
        let open = serve(works.works)
        // Without its welcome a device publishes its presence again, and what could not be served now is served then.
        let waiting = Set(open.flatMap { $0.events.compactMap(\.arrived) })
        for index in arrivals.indices.reversed() where waiting.contains(arrivals[index].device) {
            outbox.remove(at: place + index)
        }
        serveMessages(messages.works)
    }

    /// Tells a device that it is known, with the user's live calls; fewer calls rather than more bytes than allowed.
    private func welcome(_ arrival: Arrival, _ calls: [CallSnapshot]) -> OutboundMessage {
        func payload(_ listed: [CallSnapshot]) -> [UInt8] {
            DownMessage.welcome(
                Welcome(
                    session: arrival.change.session.id, serverTime: now,
                    heartbeatInterval: seconds(settings.heartbeatInterval),
                    heartbeatTimeout: seconds(settings.calls.heartbeatTimeout), calls: listed,
                    omittedCalls: arrival.omitted + calls.count - listed.count,
                    presenceLease: seconds(settings.presence.lease), tokenExpiresAt: arrival.change.tokenExpiresAt)
            ).encoded()
        }
        var room = CallRoom()
        var bytes = payload(Array(calls.prefix { room.takes($0) }))
        // One call may be too large by itself.
        if bytes.count > Limits.downBytes { bytes = payload([]) }
        return OutboundMessage(
            topic: settings.topics.down(arrival.device), payload: bytes,
            expirySeconds: ServiceBounds.messageExpirySeconds)
    }

    private func seconds(_ milliseconds: Milliseconds) -> Int { Int((milliseconds + 999) / 1000) }

    // MARK: Going

    private typealias Departure = (session: DeviceSession, reason: PresenceMessage.OfflineReason)

    private func wentOffline(_ changes: [Departure]) throws(StoreError) {
        guard !changes.isEmpty else { return }
        let hasEnded = try store.wentOffline(changes.map(\.session), policy: settings.presence)
        let gone = zip(changes, hasEnded).filter(\.1).map(\.0)
        for (change, hasEnded) in zip(changes, hasEnded) {
            counters.add(.presence, hasEnded ? change.reason.rawValue : "stale")
        }
        guard !gone.isEmpty else { return }
        let calls = try liveCalls(of: gone.map(\.session.device.userID), limit: ServiceBounds.callsPerWelcome)
        var works = WorkList<CallID, CallEvent>()
        for (change, callIDs) in zip(gone, calls) {
            for callID in callIDs { works.append(.wentOffline(change.session.device, change.reason), to: callID) }
            guard works.works.count >= ServiceBounds.callsPerPresence else { continue }
            serve(works.works)
            works = WorkList()
        }
        serve(works.works)
    }
}
