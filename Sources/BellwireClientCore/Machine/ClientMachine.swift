import SignalingProtocol

/// All decisions of the SDK: what to publish when, what the app is told, when a request has failed.
///
/// A pure, synchronous, deterministic machine. It does no I/O and knows no clock and no randomness: each event is a call
/// with the time, and what follows is returned as actions, to be performed in their order. Times are milliseconds of
/// any clock that never goes back; the service's clock is never compared with it (docs/protocol.md, section 5).
///
/// The owner calls `timerFired(now:)` when `nextDeadline` has come.
package struct ClientMachine: Sendable {
    package struct Configuration: Sendable, Equatable {
        /// How long a request is tried before it fails, in milliseconds.
        package var requestTimeout: Int64 = 30_000
        /// When presence is published again: half of the lease of 10 min (section 1).
        package var presenceRenewal: Int64 = 300_000
        /// How long past its countdown an invitation rings on: enough for a resend of what became of it to arrive.
        package var ringingMargin: Int64 = 3_000
        /// Requests that wait behind another of the same call.
        package var queuedPerCall = 16
        /// Requests at once, queued ones included.
        package var requests = 256
        /// Calls whose revision is remembered. Ended ones are forgotten first, those in which the device takes part never.
        package var knownCalls = 256
        /// Publishes presence. Without it the device only asks: it is never rung, and never counted online.
        package var publishesPresence = true
        /// The app can give another token when one ends.
        package var renewsTokens = false
        /// Beats for the app; otherwise the app does, for each of its calls.
        package var sendsHeartbeats = true
        /// Goes on with calls in which an earlier run of the app left this device. Otherwise such a call is orphaned: no heartbeats are
        /// sent for it until the app asks to accept, join or change it.
        package var resumesCalls = true
        /// Names this client's signals and ordered messages, so that those of an earlier run of the app are another stream.
        /// Without one no message has an order.
        package var signalStream: String?

        package init() {}
    }

    package enum Action: Equatable, Sendable {
        /// On the up topic of the device.
        case publish(UpMessage)
        /// On its presence topic.
        case publishPresence(PresenceMessage)
        /// To the app.
        case deliver(ClientEvent)
        /// The request's outcome: success.
        case succeed(RequestID, Response.Success)
        /// The outcome of a request that is not about one call: success.
        case answer(RequestID, Answer)
        /// The request's outcome: failure.
        case fail(RequestID, SignalingError)
        /// What was said of this call is not taken in: too many calls ring at once. Counted.
        case refuse(CallID)
        /// The service holds this session to be over: connect again, with another one and its will.
        case renewSession
        /// The token ends soon: ask the app for another, and connect with it.
        case renewToken
    }

    enum Link: Equatable, Sendable {
        /// No connection. Can transition to `connected`.
        case offline
        /// The broker accepted the connection; responses would not arrive yet, so nothing is sent.
        /// Can transition to `subscribed` and `offline`.
        case connected(session: String)
        /// Can transition to `offline`.
        case subscribed(session: String)
    }

    package let device: DeviceAddress
    package let configuration: Configuration

    var link = Link.offline
    /// Counts connections, to tell news of this one from older news.
    var connection = 0
    var presence = PresenceSchedule()
    /// The app was told `online`, and not yet `offline`.
    var isOnline = false
    /// When it was last connected again because its session was over.
    var lastSessionRenewal: Int64?
    /// When another token is asked for; nil when that is not known, or done.
    var tokenRenewal: Int64?
    /// The connection was given up for one with another token: the app is not told of it.
    var isRenewing = false
    /// Milliseconds; the welcome sets it.
    var heartbeatInterval: Int64 = 20_000

    /// In the order in which the app made them. Searched one by one: there are few.
    var pending: [PendingRequest] = []
    /// In no particular order, but in a deterministic one.
    var calls: [KnownCall] = []
    /// Of calls about which there are requests in `pending`.
    var heldCalls: [CallID: HeldCall] = [:]

    /// The next place in the own stream of signals, by call.
    var nextSignal: [CallID: Int64] = [:]
    /// Signals that wait for a connection.
    var waitingSignals: [(signal: Request.Signal, until: Int64)] = []
    var signalStreams = OrderedStreams<Signal>(Self.signalBounds)
    /// Peer messages that came, and in which order: each is told once, some not before their turn.
    var shown: Set<MessageID> = []
    var shownOrder: [MessageID] = []
    var messageStreams = OrderedStreams<IncomingMessage>(Self.messageBounds)
    /// The next places of own ordered messages.
    var places: MessagePlaces
    /// Own messages without a receipt, in the order in which they were sent.
    var unreceipted: [SentMessage] = []

    package init(device: DeviceAddress, configuration: Configuration = Configuration()) {
        self.device = device
        self.configuration = configuration
        places = MessagePlaces(stream: configuration.signalStream)
    }

    /// The newest state of the call that the device knows.
    package func snapshot(of callID: CallID) -> CallSnapshot? { knownCall(callID)?.snapshot }

    /// The calls that live, as far as the device knows.
    package var liveCalls: [CallID] { calls.filter(\.isLive).map(\.callID) }

    /// Calls that live, in which an earlier run of the app left this device (`Configuration.resumesCalls`).
    package var orphanedCalls: [CallID] { calls.filter { $0.isLive && $0.isOrphaned }.map(\.callID) }

    /// When `timerFired` must be called next; nil when there is nothing to wait for.
    package var nextDeadline: Int64? {
        var earliest: Int64?
        func consider(_ time: Int64?) {
            if let time { earliest = min(time, earliest ?? time) }
        }
        for request in pending { consider(request.deadline) }
        for call in calls { consider(call.countdown?.until) }
        consider(signalStreams.deadline)
        consider(messageStreams.deadline)
        if case .subscribed = link {
            consider(presence.next)
            consider(tokenRenewal)
            for request in pending { consider(request.nextSend) }
            for call in calls { consider(call.nextHeartbeat) }
            for message in unreceipted { consider(message.askAt) }
        }
        return earliest
    }

    /// Does all that is due at `now`.
    package mutating func timerFired(now: Int64) -> [Action] {
        tokenRenewalDue(now: now) + presenceDue(now: now) + requestsDue(now: now) + heartbeatsDue(now: now)
            + countdownsPassed(now: now)
            + signalGapsPassed(now: now) + messageGapsPassed(now: now) + receiptsDue(now: now)
    }

    /// A message arrived on one of the down topics.
    package mutating func received(_ message: DownMessage, now: Int64) -> [Action] {
        switch message {
        case .response(let response): received(response, now: now)
        case .event(let event): received(event, now: now)
        case .welcome(let welcome): received(welcome, now: now)
        case .error(let error): received(error, now: now)
        case .signal(let signal): received(signal, now: now)
        case .message(let message): received(message, now: now)
        case .receipt(let receipt): received(receipt, now: now)
        case .tokenWillExpire: tokenWillExpire(now: now)
        }
    }
}

/// Waits between sends of the same thing: 1, 2, 4, 8 s, then every 8 s (docs/protocol.md, sections 1 and 2).
enum ResendDelay {
    /// Milliseconds to wait after the `count`th send.
    static func after(_ count: Int) -> Int64 { 1000 << min(max(count - 1, 0), 3) }
}
