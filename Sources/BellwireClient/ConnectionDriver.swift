import MQTTClient
import SignalingProtocol
import SystemClocks

/// The SDK's thread: owns the machine and the connection, and does what the machine says.
final class ConnectionDriver {
    /// How long an attempt may take until the broker has answered CONNECT and the subscriptions, in milliseconds.
    private static let handshakeLimit: Int64 = 10_000
    /// The connection's own timers want a turn this often, in milliseconds.
    private static let longestPoll: Int64 = 1000
    /// How long the broker may take to show that it is there, in milliseconds.
    private static let longestAnswer: Int64 = 5_000
    /// A connection that held this long, in milliseconds, was a good one: the next attempt comes soon. Two clients that
    /// claim one device replace each other at once, and slow down.
    private static let goodConnection: Int64 = 10_000
    /// After which a token provider that failed is asked again while the present token lasts, in milliseconds.
    private static let tokenRetry: Int64 = 5_000

    private let configuration: SignalingClient.Configuration
    private let device: DeviceAddress
    private let mailbox: Mailbox
    private let deliver: (ClientEvent) -> Void
    /// What was said of a call was not taken in.
    private let refused: () -> Void
    private var machine: ClientMachine
    private var backoff = ReconnectBackoff()
    /// Nil when the app gives no tokens.
    private let tokens: TokenSource?
    /// The present one; nil when there is none, or none that the broker takes.
    private var token: String?
    /// The service holds the session of the present connection to be over.
    private var needsSession = false
    /// When the provider is asked again.
    private var nextQuestion: Int64?

    init(
        _ configuration: SignalingClient.Configuration, mailbox: Mailbox, deliver: @escaping (ClientEvent) -> Void,
        refused: @escaping () -> Void
    ) {
        self.refused = refused
        self.configuration = configuration
        self.mailbox = mailbox
        self.deliver = deliver
        device = configuration.address
        tokens = configuration.tokenProvider.map {
            TokenSource($0, timeout: configuration.tokenTimeout) { mailbox.wake() }
        }
        var settings = ClientMachine.Configuration()
        settings.requestTimeout = configuration.requestTimeout.milliseconds
        settings.signalStream = randomToken()
        settings.publishesPresence = configuration.publishesPresence
        settings.renewsTokens = configuration.tokenProvider != nil
        machine = ClientMachine(device: device, configuration: settings)
    }

    /// Returns when the app has disconnected.
    func run() {
        while !mailbox.isStopping {
            let started = SystemClock.boot.milliseconds
            do throws(MQTTError) {
                try obtainToken()
                try serveOneConnection()
            } catch {
                if error.kind == .refused { token = nil }
                mailbox.disconnected(error)
                try? perform(machine.disconnected(reason: error.message, now: SystemClock.boot.milliseconds), nil)
                if SystemClock.boot.milliseconds - started >= Self.goodConnection { backoff.reset() }
                pause(until: SystemClock.boot.milliseconds + backoff.delay())
            }
        }
        try? perform(machine.loggedOut(now: SystemClock.boot.milliseconds), nil)
        mailbox.close()
    }

    /// Waits without a connection: requests are taken and fail in time all the same.
    private func pause(until end: Int64) {
        while !mailbox.isStopping {
            let now = SystemClock.boot.milliseconds
            guard now < end else { return }
            try? turn(nil)
            mailbox.waitIdle(milliseconds: min(end, machine.nextDeadline ?? end) - now)
        }
    }

    /// Waits for the app's first token, or for another one after a refusal.
    private func obtainToken() throws(MQTTError) {
        guard let tokens, token == nil else { return }
        tokens.ask()
        while !mailbox.isStopping {
            try turn(nil)
            switch tokens.take() {
            case .token(let given)?:
                token = given
                return
            case .failure(let reason)?: throw MQTTError(kind: .refused, message: "no token: \(reason)")
            case nil: break
            }
            let now = SystemClock.boot.milliseconds
            mailbox.waitIdle(milliseconds: min(machine.nextDeadline ?? .max, now + Self.longestPoll) - now)
        }
    }

    /// Whether there is another token, for another connection.
    private func isRenewed() -> Bool {
        if let next = nextQuestion, next <= SystemClock.boot.milliseconds {
            nextQuestion = nil
            tokens?.ask()
        }
        switch tokens?.take() {
        case .token(let given)?:
            token = given
            return true
        case .failure?:
            // The present one lasts a while.
            nextQuestion = SystemClock.boot.milliseconds + Self.tokenRetry
            return false
        case nil: return false
        }
    }

    private func serveOneConnection() throws(MQTTError) {
        let session = randomToken()
        let settings = settings(session: session)
        do throws(MQTTError) {
            try serve(MQTTConnection(settings), session)
        } catch {
            throw error.because(configuration.cause(error, settings.broker.password))
        }
    }

    private func serve(_ connection: MQTTConnection, _ session: String) throws(MQTTError) {
        mailbox.setWaker(connection)
        defer { mailbox.setWaker(nil) }
        try connection.connect()
        let limit = SystemClock.boot.milliseconds + Self.handshakeLimit
        var subscriptions: Set<Int32>?
        nextQuestion = nil
        needsSession = false
        while !mailbox.isStopping {
            try turn(connection)
            let now = SystemClock.boot.milliseconds
            let wait = min((machine.nextDeadline ?? .max) - now, Self.longestPoll)
            let messages = try connection.poll(milliseconds: Int32(max(0, wait)))
            try advance(&subscriptions, connection, session)
            if subscriptions?.isEmpty != true && SystemClock.boot.milliseconds > limit {
                throw MQTTError(kind: .unreachable, message: "\(configuration.broker) does not answer")
            }
            for message in messages { try receive(message, connection) }
            if isRenewed() || needsSession {
                machine.renewing()
                // Without its will: the service goes on taking the device for online.
                connection.disconnect()
                return
            }
        }
        try perform(machine.loggedOut(now: SystemClock.boot.milliseconds), connection)
        connection.disconnect()
    }

    /// CONNACK → subscribe both down topics → both SUBACKs → presence.
    private func advance(
        _ subscriptions: inout Set<Int32>?, _ connection: MQTTConnection, _ session: String
    ) throws(MQTTError) {
        guard connection.state == .connected else { return }
        if var outstanding = subscriptions {
            guard !outstanding.isEmpty else { return }
            outstanding.subtract(connection.acknowledged)
            subscriptions = outstanding
            guard outstanding.isEmpty else { return }
            mailbox.connected()
            try perform(machine.subscribed(now: SystemClock.boot.milliseconds), connection)
        } else {
            try perform(machine.connected(session: session, now: SystemClock.boot.milliseconds), connection)
            var topics = [configuration.topics.down(device)]
            if configuration.publishesPresence { topics.append(configuration.topics.down(device.userID)) }
            var outstanding: Set<Int32> = []
            for topic in topics { outstanding.insert(try connection.subscribe(topic, qos: .atLeastOnce)) }
            subscriptions = outstanding
        }
    }

    private func settings(session: String) -> MQTTConnection.Configuration {
        var broker = configuration.broker
        if broker.username == nil { broker.username = Topics.encode(device.userID) }
        if let token = token ?? configuration.token { broker.password = token }
        var settings = MQTTConnection.Configuration(broker: broker, clientID: Topics.clientID(device))
        settings.certificateAuthorityFile = configuration.certificateAuthorityFile
        settings.keepAlive = UInt16(clamping: max(1, configuration.keepAlive.milliseconds / 1000))
        settings.longestAnswer = Self.longestAnswer
        guard configuration.publishesPresence else { return settings }
        settings.will = MQTTMessage(
            topic: configuration.topics.presence(device),
            payload: PresenceMessage(.offline(.lost), session: session).encoded())
        return settings
    }

    /// Takes what the app asked for, and what has come due.
    private func turn(_ connection: MQTTConnection?) throws(MQTTError) {
        let now = SystemClock.boot.milliseconds
        // All of them are the machine's, and in time answered, before the first is published, which may fail.
        var actions: [ClientMachine.Action] = []
        for request in mailbox.takeRequests() { actions += machine.send(request, now: now) }
        for signal in mailbox.takeSignals() { actions += machine.send(signal, now: now) }
        try perform(actions, connection)
        if let deadline = machine.nextDeadline, deadline <= now {
            let due = machine.timerFired(now: now)
            try perform(due, connection)
            // A request is sent again: it may be the connection that is dead, which a keepalive of a minute tells too late.
            if due.contains(where: \.isRequest) { try connection?.ask() }
        }
    }

    private func receive(_ message: MQTTMessage, _ connection: MQTTConnection) throws(MQTTError) {
        // Nothing of the service is retained: such a copy is stale.
        guard !message.retain else { return }
        let now = SystemClock.boot.milliseconds
        if let known = DownMessage.decode(message.payload) {
            try perform(machine.received(known, now: now), connection)
        } else if let (callID, revision) = unknownEvent(message.payload) {
            try perform(machine.receivedUnknownEvent(callID, revision: revision, now: now), connection)
        }
    }

    /// An event of a later protocol: all that can be done with it is to ack it.
    private func unknownEvent(_ payload: [UInt8]) -> (CallID, Int)? {
        guard case .object(let json)? = try? JSONParser.parse(payload), json["type"]?.string == "event",
            let callID = json["callID"]?.string.flatMap(CallID.init), let revision = json["revision"]?.integer,
            revision >= 0
        else { return nil }
        return (callID, Int(revision))
    }

    /// Does what the machine says. When publishing fails, all else is done all the same before the error is thrown: the
    /// machine has told it and will not tell it again.
    private func perform(_ actions: [ClientMachine.Action], _ connection: MQTTConnection?) throws(MQTTError) {
        var failure: MQTTError?
        for action in actions {
            switch action {
            case .publish(let message):
                guard let connection, failure == nil else { continue }
                do throws(MQTTError) {
                    try connection.publish(mqttMessage(message))
                } catch {
                    if error.kind == .invalid { refuse(message, error) } else { failure = error }
                }
            case .publishPresence(let presence):
                guard let connection, failure == nil else { continue }
                do throws(MQTTError) {
                    try connection.publish(
                        MQTTMessage(topic: configuration.topics.presence(device), payload: presence.encoded()))
                } catch {
                    failure = error
                }
            case .deliver(let event): deliver(event)
            case .succeed(let id, let success): mailbox.complete(id, .success(success))
            case .answer(let id, let answer): mailbox.complete(id, .answer(answer))
            case .fail(let id, let error): mailbox.complete(id, .failure(error))
            case .refuse: refused()
            case .renewSession: needsSession = true
            case .renewToken: tokens?.ask()
            }
        }
        if let failure { throw failure }
    }

    private func mqttMessage(_ message: UpMessage) -> MQTTMessage {
        // After its time limit the app has been told that a request failed: the broker must not deliver it then.
        let limit = configuration.requestTimeout.milliseconds / 1000 + 1
        return MQTTMessage(
            topic: configuration.topics.up(device), payload: message.encoded(),
            expirySeconds: UInt32(clamping: limit))
    }

    /// The message cannot be sent at all, as one beyond the broker's packet size: the request fails now, not in time.
    private func refuse(_ message: UpMessage, _ error: MQTTError) {
        guard case .request(let request) = message else { return }
        let refusal = SignalingError(.tooLarge, "the request cannot be sent: \(error.message)")
        let response = Response(id: request.id, outcome: .failure(refusal))
        // The next request of the same call, if this one released it, is sent again by its timer.
        try? perform(machine.received(.response(response), now: SystemClock.boot.milliseconds), nil)
    }
}

extension ClientMachine.Action {
    fileprivate var isRequest: Bool {
        if case .publish(.request) = self { true } else { false }
    }
}

extension Duration {
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
