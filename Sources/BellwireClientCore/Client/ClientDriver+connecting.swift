import SignalingProtocol
import Basics

/// The loop that makes broker connections in succession, until the app disconnects.
extension ClientDriver {
    /// The time limit of an attempt, until the broker has answered CONNECT and the subscriptions, in milliseconds.
    private static let handshakeLimit: Int64 = 10_000
    /// The waits between attempts to reach the broker: 0.25 s, doubled up to 8 s.
    private static let reconnects = Backoff(first: 250, longest: 8_000)
    /// After a connection that lasted this long, in milliseconds, the next attempt comes soon.
    private static let goodConnection: Int64 = 10_000
    /// The pause before a token provider that failed is asked again while the present token lasts.
    private static let tokenRetry = Duration.seconds(5)
    /// The bound on messages that are kept before the connection is known; the service resends the dropped messages.
    private static let mostEarly = 256

    /// Returns when the app has disconnected, or another connection has taken this client's place.
    func run() async {
        var backoff = Self.reconnects
        var rivals = RivalWatch()
        while isRunning {
            let began = clock.now
            do throws(BellwireTransportError) {
                try await obtainToken()
                try await serveOneConnection()
            } catch {
                let lasted = clock.now - began
                if rivals.isTakenOver(by: error, after: lasted, isUnexplained: isUnexplained) { break }
                failed(error)
                if lasted >= Self.goodConnection { backoff.reset() }
                await pause(backoff.next())
            }
        }
        await sayGoodbye()
    }

    private var isRunning: Bool { state.withLock { $0.phase == .running } }

    /// Whether the connection was opened, and the service has not said why the connection is to end.
    private var isUnexplained: Bool { state.withLock { $0.wasOpened && $0.lastError == nil } }

    private func failed(_ error: BellwireTransportError) {
        turn { state in
            state.problem = error.message
            state.hasEndedToken = error.kind == .refused && state.password.map(TokenEnd.hasPassed) ?? false
            if state.phase == .running, !state.isWithoutToken {
                let what = state.wasOpened ? "the connection has ended" : "cannot connect"
                log(.info, &state, "\(what): \(error.message)")
            }
            if error.kind == .refused, configuration.tokenProvider != nil { state.token = nil }
            perform(state.machine.disconnected(reason: error.message, now: clock.now), &state)
            guard state.phase == .running else { return }
            stand(standing(after: error, state), &state)
        }
    }

    private func standing(after error: BellwireTransportError, _ state: State) -> BellwireConnectionState {
        let isFirst = state.standing == .connecting
        switch error.kind {
        case .refused where state.standing == .tokenExpired: return .tokenExpired
        case .refused where state.hasEndedToken: return .refused(reason: "\(error.message): \(Self.tokenExpired)")
        case .refused, .tls: return .refused(reason: error.message)
        case .lost, .ended, .takenOver, .unreachable, .invalid:
            if state.lastError == .tokenExpired, configuration.tokenProvider == nil { return .tokenExpired }
            return isFirst ? .connecting : .reconnecting(reason: error.message)
        }
    }

    /// Waits; `stop`, `renew` and `networkChanged` end the wait early.
    private func pause(_ milliseconds: Int64) async {
        let end = clock.now + milliseconds
        let pause = state.withLock { state -> Task<Void, Never>? in
            guard state.phase == .running else { return nil }
            let clock = clock
            state.pause = Task { await clock.sleep(until: end) }
            return state.pause
        }
        await pause?.value
        state.withLock { $0.pause = nil }
    }

    // MARK: Tokens

    /// Asks the app for its first token, or for another token after a refusal.
    private func obtainToken() async throws(BellwireTransportError) {
        let isNeeded = state.withLock { state in
            state.isWithoutToken = configuration.tokenProvider != nil && state.token == nil
            state.password = nil
            if state.isWithoutToken { state.problem = "the token provider has not answered" }
            return state.isWithoutToken
        }
        guard isNeeded, let provider = configuration.tokenProvider else { return }
        let source = TokenSource(provider: provider, timeout: configuration.tokenTimeout)
        let answer = await source.ask { abandon in
            let isRunning = state.withLock { state in
                state.abandon = abandon
                return state.phase == .running
            }
            if !isRunning { abandon() }
        }
        state.withLock { $0.abandon = nil }
        switch answer {
        case .token(let token):
            state.withLock { state in
                (state.token, state.isWithoutToken) = (token, false)
                state.problem = "the broker has not answered"
            }
        case .failure(let reason, let kind):
            log(tokenFailure: kind)
            throw BellwireTransportError(.refused, "no token: \(reason)")
        }
    }

    /// Asks for another token before the present token ends, and repeats that until the provider returns a token.
    func askForToken() {
        guard let provider = configuration.tokenProvider else { return }
        let source = TokenSource(provider: provider, timeout: configuration.tokenTimeout)
        let number = { [weak self] in self?.state.withLock { $0.phase == .running ? $0.linkNumber : nil } ?? nil }
        Task { [weak self] in
            guard let present = number() else { return }
            while number() == present {
                switch await source.ask() {
                case .token(let token):
                    if number() == present { self?.renew(token) }
                    return
                case .failure(_, let kind): self?.log(tokenFailure: kind)
                }
                try? await Task.sleep(for: Self.tokenRetry)
            }
        }
    }

    // MARK: The broker connection

    /// Returns when the connection is to be replaced, or the app disconnects; throws when the connection ends.
    private func serveOneConnection() async throws(BellwireTransportError) {
        let session = randomToken()
        let (ended, endings) = AsyncStream.makeStream(of: BellwireTransportError?.self)
        let number = state.withLock { state in
            state.linkNumber += 1
            state.endings = endings
            state.early = []
            (state.wasOpened, state.lastError) = (false, nil)
            return state.linkNumber
        }
        let link = try await connect(session, number)
        opened(link, session)
        for await ending in ended {
            guard let ending else { break }
            turn { $0.link = nil }
            throw ending
        }
        guard isRunning else { return }
        // Closing drops the will: the service still counts the device as online.
        turn { state in
            state.machine.renewing()
            state.link = nil
        }
        await link.close()
    }

    private func connect(
        _ session: String, _ number: Int
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let (transport, request) = (configuration.transport, connectionRequest(session))
        state.withLock { $0.password = request.password }
        let attempt = Task { () -> Result<any BellwireTransportConnection, BellwireTransportError> in
            do throws(BellwireTransportError) {
                return .success(try await transport.connect(request) { [weak self] in self?.told($0, number) })
            } catch {
                return .failure(error)
            }
        }
        let limit = clock.now + Self.handshakeLimit
        let clock = clock
        let (results, inbox) = AsyncStream.makeStream(
            of: Result<any BellwireTransportConnection, BellwireTransportError>?.self)
        Task { inbox.yield(await attempt.value) }
        let timer = Task {
            await clock.sleep(until: limit)
            inbox.yield(nil)
        }
        state.withLock { $0.abandon = { inbox.yield(nil) } }
        if !isRunning { inbox.yield(nil) }
        defer {
            timer.cancel()
            state.withLock { $0.abandon = nil }
        }
        for await result in results {
            guard let result else { break }
            return try result.get()
        }
        attempt.cancel()
        // A connection that comes too late is closed.
        Task { if case .success(let link) = await attempt.value { await link.close() } }
        throw BellwireTransportError(.unreachable, "no answer from the broker within \(Self.handshakeLimit / 1000) s")
    }

    private func connectionRequest(_ session: String) -> BellwireConnectionRequest {
        var topics = [configuration.topics.down(device)]
        if configuration.publishesPresence { topics.append(configuration.topics.down(device.userID)) }
        let will = BellwireOutgoingMessage(
            topic: configuration.topics.presence(device),
            payload: PresenceMessage(.offline(.lost), session: session).encoded())
        return BellwireConnectionRequest(
            clientID: Topics.clientID(device), username: Topics.encode(device.userID),
            password: state.withLock { $0.token }, will: configuration.publishesPresence ? will : nil,
            keepAlive: configuration.keepAlive, topics: topics, qos: configuration.qos)
    }

    /// Takes over a connection after the broker has granted the subscriptions: the machine publishes presence.
    private func opened(_ link: any BellwireTransportConnection, _ session: String) {
        turn { state in
            state.link = link
            state.wasOpened = true
            log(.debug, &state, "the broker has granted the subscriptions")
            state.problem = "the service has not answered"
            let now = clock.now
            perform(state.machine.connected(session: session, now: now), &state)
            perform(state.machine.subscribed(now: now), &state)
            answerWaiters(nil, &state, forService: false)
            if !configuration.publishesPresence { stand(.connected, &state) }
            for event in state.early { took(event, &state) }
            state.early = []
        }
    }

    // MARK: Events of the transport

    private func told(_ event: BellwireTransportEvent, _ number: Int) {
        turn { state in
            guard state.linkNumber == number else { return }
            guard state.link != nil || state.isClosing(event) else {
                if state.early.count < Self.mostEarly { state.early.append(event) }
                return
            }
            took(event, &state)
        }
    }

    private func took(_ event: BellwireTransportEvent, _ state: inout State) {
        switch event {
        case .received(let payload, let isRetained):
            // The service publishes no retained messages: such a copy is stale.
            if !isRetained { receive(payload, &state) }
        case .closed(let error): state.endings?.yield(error)
        }
    }

    private func receive(_ payload: [UInt8], _ state: inout State) {
        let now = clock.now
        if let known = DownMessage.decode(payload) {
            heardOfTime(known, now, &state)
            state.book.learn(known.mediaSessions)
            perform(state.machine.received(known, now: now), &state)
            if case .welcome(let welcome) = known {
                state.effects += state.book.resynchronised(with: welcome, by: self)
            }
        } else if let (callID, revision) = unknownEvent(payload) {
            perform(state.machine.receivedUnknownEvent(callID, revision: revision, now: now), &state)
        }
    }

    /// Takes the service's time from a welcome, and tells an app without a token provider when its token ends. A
    /// warning that comes before the first welcome waits, since only the welcome tells the service's time.
    private func heardOfTime(_ message: DownMessage, _ now: Int64, _ state: inout State) {
        if case .welcome(let welcome) = message {
            state.serverAhead = welcome.serverTime &- now
            if !welcome.iceServers.isEmpty { state.iceServers = welcome.iceServers }
        }
        if case .tokenWillExpire(let expiresAt) = message { state.tokenEnd = expiresAt }
        guard let expiresAt = state.tokenEnd, let ahead = state.serverAhead else { return }
        state.tokenEnd = nil
        guard configuration.tokenProvider == nil else { return }
        let left = expiresAt.subtractingReportingOverflow(now &+ ahead).partialValue
        deliver(.tokenWillExpire(seconds: Int(clamping: max(0, min(left, 1 << 40) / 1000))), &state)
    }

    /// Returns the call and revision of an event of a later protocol, since the device can only ack such an event.
    private func unknownEvent(_ payload: [UInt8]) -> (CallID, Int)? {
        guard case .object(let json)? = try? JSONParser.parse(payload), json["type"]?.string == "event",
            let callID = json["callID"]?.string.flatMap(CallID.init), let revision = json["revision"]?.integer,
            revision >= 0
        else { return nil }
        return (callID, Int(revision))
    }

    // MARK: Disconnecting

    private func sayGoodbye() async {
        let link = await withCheckedContinuation { said in
            turn { state in
                let isTakenOver = state.phase == .running
                if isTakenOver {
                    perform(state.machine.disconnected(reason: Self.takenOver, now: clock.now), &state)
                    stand(.takenOver, &state)
                    state.link = nil
                }
                perform(state.machine.loggedOut(now: clock.now), &state)
                // Another thread may be publishing: the connection is closed after the logout has left.
                let link = state.link
                state.effects.append { said.resume(returning: link) }
            }
        }
        await link?.close()
        turn { close(&$0) }
    }
}

extension ClientDriver.State {
    fileprivate func isClosing(_ event: BellwireTransportEvent) -> Bool {
        if case .closed = event { true } else { false }
    }
}

/// The detection of another connection with this device id, at brokers that do not report a displacement.
struct RivalWatch {
    /// Two clients with the same device id displace each other on connecting: within this time, in milliseconds.
    private static let soon: Int64 = 3_000
    /// The number of displacements after which this client gives up. The client that connected first reaches this
    /// number first.
    private static let often = 3

    private var displaced = 0

    /// Whether the end of a connection or of an attempt, after `lasted` milliseconds, shows another connection with
    /// this device id. `isUnexplained` says that the connection was opened, and the service has not said why the
    /// connection is to end. A broker that is about to start, or a proxy without its broker, closes attempts without an
    /// explanation.
    mutating func isTakenOver(by error: BellwireTransportError, after lasted: Int64, isUnexplained: Bool) -> Bool {
        switch error.kind {
        case .takenOver: return true
        case .lost(isClean: true), .ended:
            guard isUnexplained else { return false }
            displaced = lasted < Self.soon ? displaced + 1 : 1
            return displaced >= Self.often
        case .lost, .unreachable, .refused, .tls, .invalid:
            displaced = 0
            return false
        }
    }
}
