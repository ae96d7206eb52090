import SignalingProtocol

/// When presence is published next (docs/protocol.md, section 1).
struct PresenceSchedule: Sendable, Equatable {
    /// How often it was published since it was last answered.
    var sends = 0
    /// A welcome naming the session is outstanding.
    var isAwaitingWelcome = false
    var next: Int64?
    /// When a welcome for another session was last answered at once.
    var lastCorrection: Int64?
}

extension ClientMachine {
    /// Two connections that claim to be the same device would answer each other's welcomes for ever: at most one
    /// answer a second, in milliseconds.
    private static let correctionInterval: Int64 = 1000

    /// Between two connections that are made because a session is over, in milliseconds. Presence is published again after at most
    /// as long, and answered again.
    private static let sessionPause: Int64 = 8_000

    /// The broker accepted a connection. `session` is random and new with each connection.
    package mutating func connected(session: String, now: Int64) -> [Action] {
        let actions =
            isRenewing ? [] : disconnected(reason: "replaced by a new connection", now: now)
        isRenewing = false
        connection += 1
        heldCalls = [:]
        link = .connected(session: session)
        return actions
    }

    /// The broker answered the subscriptions of both down topics: from now on nothing that is sent to this device is
    /// missed, so presence is published, and after it the requests that wait.
    package mutating func subscribed(now: Int64) -> [Action] {
        guard case .connected(let session) = link else { return [] }
        link = .subscribed(session: session)
        presence = PresenceSchedule()
        presence.isAwaitingWelcome = configuration.publishesPresence
        askForReceipts(now: now)
        return publishPresence(now: now) + resendAll(now: now) + sendWaitingSignals(now: now)
    }

    /// The connection is gone. Requests and calls stay.
    package mutating func disconnected(reason: String, now: Int64) -> [Action] {
        link = .offline
        isRenewing = false
        tokenRenewal = nil
        presence = PresenceSchedule()
        guard isOnline else { return [] }
        isOnline = false
        return [.deliver(.offline(reason: reason))]
    }

    /// The app leaves: says goodbye, delivers what waits for its turn, since it was acked, and fails what is unanswered. The
    /// connection is to be closed afterwards.
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
            // The renewal is answered and repeated like the first: a lost one would let the lease run out.
            presence.isAwaitingWelcome = true
            presence.sends = 0
        }
        return publishPresence(now: now)
    }

    private mutating func publishPresence(now: Int64) -> [Action] {
        guard case .subscribed(let session) = link, configuration.publishesPresence else { return [] }
        presence.sends += 1
        presence.next = now + ResendDelay.after(presence.sends)
        return [.publishPresence(PresenceMessage(.online, session: session))]
    }

    mutating func received(_ welcome: Welcome, now: Int64) -> [Action] {
        guard case .subscribed(let session) = link else { return [] }
        guard welcome.session.hasSameBytes(as: session) else { return welcomedAnotherSession(now: now) }
        presence.isAwaitingWelcome = false
        presence.sends = 0
        // Also while the device is not idle: each welcome is a chance to learn of a call that is over.
        // At half of the lease, if the service says how long it is.
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

    /// In milliseconds. Whatever a service says, the pause is a pause, and ends within an hour.
    private func renewal(ofLease seconds: Int) -> Int64 { Int64(min(max(seconds, 2), 7200)) * 500 }

    /// A session that is over is another connection's, or its end overtook its beginning.
    mutating func received(_ error: SignalingError, now: Int64) -> [Action] {
        guard error.code == .sessionOver else { return [.deliver(.error(error))] }
        guard case .subscribed(let session) = link, configuration.publishesPresence,
            error.session.map({ $0.utf8.elementsEqual(session.utf8) }) ?? false
        else { return [] }
        // Whatever a service says, connecting again has its pause; after it the presence that is published is answered like this one.
        if let last = lastSessionRenewal, now - last < Self.sessionPause {
            presence.isAwaitingWelcome = true
            presence.sends = 0
            presence.next = last + Self.sessionPause
            return []
        }
        lastSessionRenewal = now
        return [.renewSession]
    }

    /// The service takes another session for the current one: tells it again.
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
