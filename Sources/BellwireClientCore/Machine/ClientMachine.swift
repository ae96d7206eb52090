import SignalingProtocol

/// The machine that takes all decisions of the SDK: when to publish a message, when to tell the app, when a request
/// fails.
///
/// The machine is pure, synchronous and deterministic. The machine does no I/O and knows no clock and no randomness:
/// each input is a call with the time, and the machine returns actions, to be performed in their order. Times are
/// milliseconds of any clock that never goes back; the service's clock is never compared with this clock
/// (docs/protocol.md, section 5).
///
/// The owner calls `timerFired(now:)` when `nextDeadline` has come.
package struct ClientMachine: Sendable {
    package struct Configuration: Sendable, Equatable {
        /// The time limit of a request, in milliseconds.
        package var requestTimeout: Int64 = 30_000
        /// The time until presence is published again, in milliseconds, when the welcome has no `presenceLease`: half
        /// of the expiry of 10 min (section 1).
        package var presenceRenewal: Int64 = 300_000
        /// How long an invitation rings beyond its countdown, in milliseconds: enough for a resend of its outcome to
        /// arrive.
        package var ringingMargin: Int64 = 3_000
        /// The bound on requests that may wait behind another request of the same call.
        package var queuedPerCall = 16
        /// The bound on unanswered requests, including the queued requests.
        package var requests = 256
        /// The number of calls with a remembered revision. Ended calls are forgotten first; calls of which the device
        /// is part are never forgotten.
        package var knownCalls = 256
        /// Whether to publish presence. A device without presence can only ask: the device never rings, and never
        /// counts as online.
        package var publishesPresence = true
        /// Whether the app can supply another token when the present token ends.
        package var renewsTokens = false
        /// Whether the machine sends heartbeats; otherwise the app does, for each of its calls.
        package var sendsHeartbeats = true
        /// Whether to go on with calls in which an earlier run of the app left this device. Otherwise such a call is
        /// orphaned: the machine sends no heartbeats for the call until the app asks to accept, join or change that
        /// call.
        package var resumesCalls = true
        /// The name of this client's streams of signals and ordered messages, different from the names of earlier runs
        /// of the app. Without a name no message has an order.
        package var signalStream: String?

        package init() {}
    }

    package enum Action: Equatable, Sendable {
        /// Publishes on the device's up topic.
        case publish(UpMessage)
        /// Publishes on the device's presence topic.
        case publishPresence(PresenceMessage)
        /// Delivers an event to the app.
        case deliver(ClientEvent)
        /// Ends a request with success.
        case succeed(RequestID, Response.Success)
        /// Ends a request that is not about one call with success.
        case answer(RequestID, Answer)
        /// Ends a request with a failure.
        case fail(RequestID, SignalingError)
        /// Reports that the machine has not taken in a message about this call, since too many calls ring at once.
        /// Counted.
        case refuse(CallID)
        /// Asks for a connection with another session and will, at the next broker of the list: the service considers
        /// this session ended, or the broker delivers nothing.
        case renewSession
        /// Ends the connection for good: the device has a newer session at another broker.
        case endTakenOver
        /// Asks for a connection with another token of the app, since the present token ends soon.
        case renewToken
    }

    enum Link: Equatable, Sendable {
        /// No connection. Can transition to `connected`.
        case offline
        /// The broker has accepted the connection; responses would not arrive yet, so the machine sends no requests.
        /// Can transition to `subscribed` and `offline`.
        case connected(session: String)
        /// Responses arrive. Can transition to `offline`.
        case subscribed(session: String)
    }

    package let device: DeviceAddress
    package let configuration: Configuration

    var link = Link.offline
    /// The reason why there is no connection, for the error of a request that had no response; set by the machine's
    /// owner.
    package var offlineReason = "the broker cannot be reached"
    /// The number of connections so far, to tell news of this connection from older news.
    var connection = 0
    var presence = PresenceSchedule()
    var silence = SilenceWatch()
    /// Whether the app was told `online`, and not yet `offline`.
    var isOnline = false
    /// The sessions of this client, the latest last.
    var ownSessions: [String] = []
    static let sessionsRemembered = 16
    /// The time at which the device last reconnected because its session had ended.
    var lastSessionRenewal: Int64?
    /// The time at which the machine asks for another token; nil when no time is known, or the machine has asked
    /// already.
    var tokenRenewal: Int64?
    /// Whether the connection was given up for a connection with another token, without telling the app.
    var isRenewing = false
    /// The time between heartbeats, in milliseconds, from the welcome.
    var heartbeatInterval: Int64 = 20_000

    /// The unanswered requests, in the order of the app's calls. A linear search suffices for their number.
    var pending: [PendingRequest] = []
    /// The known calls, in an arbitrary but deterministic order.
    var calls: [KnownCall] = []
    /// The calls of a welcome that wait for requests in `pending`.
    var heldCalls: [CallID: HeldCall] = [:]

    /// The next `seq` of this device's signals, by call.
    var nextSignal: [CallID: Int64] = [:]
    /// The signals that wait for a connection, each with the end of its usefulness.
    var waitingSignals: [(signal: Request.Signal, until: Int64)] = []
    var signalStreams = OrderedStreams<BellwireSignal>(Self.signalBounds)
    /// The ids of peer messages that have come, and their order. The app gets each message once, some not before their
    /// turn.
    var shown: Set<MessageID> = []
    var shownOrder: [MessageID] = []
    var messageStreams = OrderedStreams<BellwireIncomingMessage>(Self.messageBounds)
    /// The next `seq` of this device's ordered messages, by recipient.
    var places: MessagePlaces
    /// The messages of this device without a receipt, in the order of sending.
    var unreceipted: [SentMessage] = []

    package init(device: DeviceAddress, configuration: Configuration = Configuration()) {
        self.device = device
        self.configuration = configuration
        places = MessagePlaces(stream: configuration.signalStream)
    }

    /// Returns the newest state of the call that the device knows.
    package func snapshot(of callID: CallID) -> CallSnapshot? { knownCall(callID)?.snapshot }

    /// The calls that are live, as far as the device knows.
    package var liveCalls: [CallID] { calls.filter(\.isLive).map(\.callID) }

    /// The live calls in which an earlier run of the app left this device (`Configuration.resumesCalls`).
    package var orphanedCalls: [CallID] { calls.filter { $0.isLive && $0.isOrphaned }.map(\.callID) }

    /// The time at which the owner must next call `timerFired`; nil when no timer is running.
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
            consider(silence.deadline)
            for request in pending { consider(request.nextSend) }
            for call in calls { consider(call.nextHeartbeat) }
            for message in unreceipted { consider(message.askAt) }
        }
        return earliest
    }

    /// Serves all deadlines up to `now`.
    package mutating func timerFired(now: Int64) -> [Action] {
        tokenRenewalDue(now: now) + presenceDue(now: now) + requestsDue(now: now) + heartbeatsDue(now: now)
            + countdownsPassed(now: now)
            + signalGapsPassed(now: now) + messageGapsPassed(now: now) + receiptsDue(now: now) + silenceDue(now: now)
    }

    /// Handles a message from a down topic.
    package mutating func received(_ message: DownMessage, now: Int64) -> [Action] {
        silence = SilenceWatch()
        return switch message {
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
