import SignalingProtocol

/// The `BellwireCall` objects of a client: one for each live call, made with the first news of the call. The machine
/// bounds their number.
struct CallBook {
    /// The bound on calls that are kept after their countdown, since the service may still report their end. Beyond
    /// that number the oldest end for good.
    static let mostExpired = 64
    /// The bound on media sessions that are kept for calls; at the bound all are forgotten.
    static let mostSessions = 64

    private let user: UserID
    private let device: DeviceID
    private var calls: [CallID: BellwireCall] = [:]
    /// The newest media sessions, for calls that become known with or after the message of their session.
    private var sessions: [CallID: BellwireMediaSession] = [:]

    init(user: UserID, device: DeviceID) {
        self.user = user
        self.device = device
    }

    var live: [BellwireCall] { calls.values.filter { !$0.isExpired }.sorted(by: isOlder) }

    subscript(callID: CallID) -> BellwireCall? { calls[callID].flatMap { $0.isExpired ? nil : $0 } }

    /// Takes the media sessions of a message. To be called before the message's events.
    mutating func learn(_ media: [CallMediaSession]) {
        for known in media {
            if sessions.count >= Self.mostSessions { sessions = [:] }
            sessions[known.callID] = known.session
            calls[known.callID]?.learn(known.session)
        }
    }

    private func isOlder(_ one: BellwireCall, _ other: BellwireCall) -> Bool {
        (one.snapshot.createdAt, one.id) < (other.snapshot.createdAt, other.id)
    }

    /// Returns the effects that report `event` to the readers.
    mutating func received(_ event: ClientEvent, by driver: ClientDriver) -> [ClientDriver.Effect] {
        switch event {
        case .event(let event): received(event, by: driver)
        case .snapshot(let call): received(call, actor: nil, driver)
        case .invitationExpired(let call): expired(call.callID)
        case .gone(let call): over(call.callID, driver) { $0.over(.ended(nil)) }
        case .signal(let signal): calls[signal.callID]?.update { _ in [.signal(signal)] } ?? []
        case .online, .offline, .message, .receipt, .error, .connection, .tokenWillExpire: []
        }
    }

    private mutating func received(_ event: Event, by driver: ClientDriver) -> [ClientDriver.Effect] {
        guard event.name == .handledElsewhere else { return received(event.call, actor: event.actor, driver) }
        guard let call = calls[event.callID] else { return [] }
        let own = event.call.member(user)
        // The reason comes first, since the next change may be the end.
        return call.update { $0.handledElsewhere(own) + $0.received(event.call, by: event.actor) }
            + forgetIfOver(event.call, driver)
    }

    private mutating func received(
        _ snapshot: CallSnapshot, actor: UserID?, _ driver: ClientDriver
    ) -> [ClientDriver.Effect] {
        let former = leftBefore(snapshot, driver)
        let isNew = calls[snapshot.callID] == nil
        let wasExpired = calls[snapshot.callID]?.isExpired ?? false
        // A call that had ended before its first news is not followed.
        guard !isNew || isLive(snapshot) else { return former }
        let call = calls[snapshot.callID] ?? BellwireCall(snapshot, driver)
        calls[snapshot.callID] = call
        if isNew { call.learn(sessions[snapshot.callID]) }
        let isHere = snapshot.member(user)?.device == device
        let news = call.update { tracker in
            if isHere { tracker.isHere() }
            return tracker.received(snapshot, by: actor)
        }
        let rings = (isNew || wasExpired) && snapshot.member(user)?.state.isPending == true
        let ringing: [ClientDriver.Effect] = rings ? [{ driver.incomingCalls.tell(call) }] : []
        return former + ringing + news + forgetIfOver(snapshot, driver)
    }

    /// Ends the user's earlier part in a call to which the user is invited again, since not every device is told that
    /// the user had left. The new invitation gets another `BellwireCall`.
    private mutating func leftBefore(_ snapshot: CallSnapshot, _ driver: ClientDriver) -> [ClientDriver.Effect] {
        guard snapshot.member(user)?.state.isPending == true,
            calls[snapshot.callID]?.ownMember?.state.isPending == false
        else { return [] }
        return over(snapshot.callID, driver) { $0.over(.left) }
    }

    private func isLive(_ call: CallSnapshot) -> Bool {
        call.state != .ended && call.member(user)?.state.isLive ?? false
    }

    /// Forgets a call that has ended for this user. The app may keep the object, which does not change any more; a user
    /// who is invited again gets another object.
    private mutating func forgetIfOver(_ call: CallSnapshot, _ driver: ClientDriver) -> [ClientDriver.Effect] {
        isLive(call) ? [] : over(call.callID, driver) { $0.over(.left) }
    }

    /// Ends a call. A call that ends before `incomingCalls` has a reader is withdrawn from there.
    private mutating func over(
        _ callID: CallID, _ driver: ClientDriver, _ change: (inout CallTracker) -> [CallChange]
    ) -> [ClientDriver.Effect] {
        sessions[callID] = nil
        guard let call = calls.removeValue(forKey: callID) else { return [] }
        return call.update(change) + [{ driver.incomingCalls.withdraw { $0.id == callID } }]
    }

    /// Ends the calls with a passed countdown that the welcome does not list: the service will not report their end.
    mutating func resynchronised(with welcome: Welcome, by driver: ClientDriver) -> [ClientDriver.Effect] {
        guard welcome.omittedCalls == 0 else { return [] }
        let expired = calls.values.filter(\.isExpired).map(\.id)
        return expired.filter { id in !welcome.calls.contains { $0.callID == id } }
            .flatMap { over($0, driver) { $0.over(.ended(nil)) } }
    }

    private mutating func expired(_ callID: CallID) -> [ClientDriver.Effect] {
        guard let call = calls[callID] else { return [] }
        let news = call.update { $0.expired() }
        let expired = calls.values.filter(\.isExpired)
        guard expired.count > Self.mostExpired, let oldest = expired.min(by: isOlder) else { return news }
        calls[oldest.id] = nil
        return news + oldest.update { $0.over(.ended(nil)) }
    }

    /// Ends all calls and their streams, when the client has disconnected.
    mutating func closed() -> [ClientDriver.Effect] {
        defer { calls = [:] }
        return calls.values.flatMap { call in call.update { $0.over(.ended(nil)) } }
    }
}

extension DownMessage {
    /// The media sessions in this message.
    var mediaSessions: [CallMediaSession] {
        switch self {
        case .welcome(let welcome): return welcome.mediaSessions
        case .response(let response):
            guard case .success(let success) = response.outcome, let session = success.mediaSession else { return [] }
            return [CallMediaSession(callID: success.call.callID, session: session)]
        case .event, .error, .signal, .message, .receipt, .tokenWillExpire: return []
        }
    }
}
