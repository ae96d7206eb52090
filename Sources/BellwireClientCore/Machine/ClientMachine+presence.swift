import SignalingProtocol

/// The schedule by which the device publishes its presence (docs/protocol.md, section 1).
struct PresenceSchedule: Sendable, Equatable {
    /// The number of times that presence was published since the last welcome.
    var sends = 0
    /// Whether a welcome that names the session is outstanding.
    var isAwaitingWelcome = false
    var next: Int64?
    /// The last time at which the device answered a welcome that named another session at once.
    var lastCorrection: Int64?
}

extension ClientMachine {
    /// The least time between two answers to welcomes of another session, in milliseconds. Two connections that claim
    /// to be the same device would otherwise answer each other's welcomes without end.
    private static let correctionInterval: Int64 = 1000

    /// The least time between two connections that are made because a session has ended, in milliseconds. Within this
    /// time the device publishes its presence again, so that the service can answer before another connection is made.
    private static let sessionPause: Int64 = 8_000

    /// Notes that the broker accepted a connection. `session` is random and new with each connection.
    package mutating func connected(session: String, now: Int64) -> [Action] {
        let actions =
            isRenewing ? [] : disconnected(reason: "replaced by a new connection", now: now)
        isRenewing = false
        connection += 1
        heldCalls = [:]
        link = .connected(session: session)
        silence.restart()
        ownSessions.append(session)
        ownSessions.removeFirst(max(0, ownSessions.count - Self.sessionsRemembered))
        return actions
    }

    /// Notes that the broker acknowledged the subscriptions of both down topics. From now on the device misses no
    /// message, so the machine publishes presence, and then the waiting requests.
    package mutating func subscribed(now: Int64) -> [Action] {
        guard case .connected(let session) = link else { return [] }
        link = .subscribed(session: session)
        presence = PresenceSchedule()
        presence.isAwaitingWelcome = configuration.publishesPresence
        askForReceipts(now: now)
        return publishPresence(now: now) + resendAll(now: now) + sendWaitingSignals(now: now)
    }

    /// Notes that the connection is lost. Requests and calls stay.
    package mutating func disconnected(reason: String, now: Int64) -> [Action] {
        link = .offline
        isRenewing = false
        tokenRenewal = nil
        presence = PresenceSchedule()
        guard isOnline else { return [] }
        isOnline = false
        return [.deliver(.offline(reason: reason))]
    }

    /// Logs out for the app: publishes `logout`, delivers the messages that wait for their turn, since they were acked,
    /// and fails the unanswered requests. The owner closes the connection afterwards.
    package mutating func loggedOut(now: Int64) -> [Action] {
        var actions: [Action] = []
        if case .subscribed(let session) = link, configuration.publishesPresence {
            actions.append(.publishPresence(PresenceMessage(.offline(.logout), session: session)))
        }
        let error = SignalingError(.disconnected, "the client disconnected before the response came")
        actions += messageGapsPassed(now: .max)
        actions += pending.map { .fail($0.request.id, error) }
        pending = []
        link = .offline
        isOnline = false
        return actions
    }

    mutating func presenceDue(now: Int64) -> [Action] {
        guard case .subscribed = link, let next = presence.next, next <= now else { return [] }
        if !presence.isAwaitingWelcome {
            // The service answers a renewal like the first presence, and the machine repeats a lost renewal: otherwise
            // the presence would expire.
            presence.isAwaitingWelcome = true
            presence.sends = 0
        }
        return publishPresence(now: now)
    }

    private mutating func publishPresence(now: Int64) -> [Action] {
        guard case .subscribed(let session) = link, configuration.publishesPresence else { return [] }
        awaitsWelcome(now: now)
        presence.sends += 1
        presence.next = now + Backoff.resends.wait(after: presence.sends)
        return [.publishPresence(PresenceMessage(.online, session: session))]
    }

    mutating func received(_ welcome: Welcome, now: Int64) -> [Action] {
        guard case .subscribed(let session) = link else { return [] }
        guard welcome.session.hasSameBytes(as: session) else { return welcomedAnotherSession(now: now) }
        presence.isAwaitingWelcome = false
        presence.sends = 0
        // A device that is not idle renews its presence too: each welcome may show that a call has ended. The renewal
        // is due at half of the time to the expiry (`presenceLease`), if the welcome carries that.
        presence.next = now + (welcome.presenceLease.map(renewal) ?? configuration.presenceRenewal)
        setTokenRenewal(welcome, now: now)
        setHeartbeatInterval(seconds: welcome.heartbeatInterval, now: now)
        var actions: [Action] = []
        if !isOnline {
            isOnline = true
            actions.append(.deliver(.online))
        }
        return actions + resynchronised(with: welcome, now: now)
    }

    /// Returns half of the time to the expiry of presence, in milliseconds, from 1 s to 1 h.
    private func renewal(ofLease seconds: Int) -> Int64 { Int64(min(max(seconds, 2), 7200)) * 500 }

    /// Handles `sessionOver`, and delivers any other error. A session that has ended belongs to another connection, or
    /// its end overtook its beginning.
    mutating func received(_ error: SignalingError, now: Int64) -> [Action] {
        guard error.code == .sessionOver else { return [.deliver(.error(error))] }
        guard case .subscribed(let session) = link, configuration.publishesPresence,
            error.session.map({ $0.utf8.elementsEqual(session.utf8) }) ?? false
        else { return [] }
        if error.reason == "takenOver", !isOwn(error.newerSession) { return [.endTakenOver] }
        // Reconnecting always has a pause; the service answers the presence that is published after the pause.
        if let last = lastSessionRenewal, now - last < Self.sessionPause {
            presence.isAwaitingWelcome = true
            presence.sends = 0
            presence.next = last + Self.sessionPause
            return []
        }
        lastSessionRenewal = now
        return [.renewSession]
    }

    /// Whether this client had the session itself: the beginning of the session came late, from a broker that stood
    /// still.
    private func isOwn(_ session: String?) -> Bool {
        guard let session else { return false }
        return ownSessions.contains { $0.utf8.elementsEqual(session.utf8) }
    }

    /// Publishes the session again, since the service takes another session for the current one.
    private mutating func welcomedAnotherSession(now: Int64) -> [Action] {
        presence.isAwaitingWelcome = true
        presence.sends = 0
        if let last = presence.lastCorrection, now - last < Self.correctionInterval {
            presence.next = last + Self.correctionInterval
            return []
        }
        presence.lastCorrection = now
        return publishPresence(now: now)
    }
}
