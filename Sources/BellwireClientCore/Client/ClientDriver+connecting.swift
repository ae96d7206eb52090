import SignalingProtocol
import Synchronization

/// One connection after another, until the app disconnects.
extension ClientDriver {
    /// How long an attempt may take until the broker has answered CONNECT and the subscriptions, in milliseconds.
    private static let handshakeLimit: Int64 = 10_000
    /// A connection that held this long, in milliseconds, was a good one: the next attempt comes soon.
    private static let goodConnection: Int64 = 10_000
    /// After which a token provider that failed is asked again while the present token lasts.
    private static let tokenRetry = Duration.seconds(5)
    /// Messages that arrive before the connection is known; the service sends what was dropped again.
    private static let mostEarly = 256

    /// Returns when the app has disconnected, or another connection has taken this one's place.
    func run() async {
        var backoff = ReconnectBackoff()
        var rivals = RivalWatch()
        while isRunning {
            let began = clock.now
            do throws(TransportError) {
                try await obtainToken()
                try await serveOneConnection()
            } catch {
                let lasted = clock.now - began
                if rivals.isTakenOver(by: error, after: lasted, isUnexplained: isUnexplained) { break }
                failed(error)
                if lasted >= Self.goodConnection { backoff.reset() }
                await pause(backoff.delay())
            }
        }
        await sayGoodbye()
    }

    private var isRunning: Bool { state.withLock { $0.phase == .running } }

    /// The connection came about, and the service has not said why it is to end.
    private var isUnexplained: Bool { state.withLock { $0.wasOpened && $0.lastError == nil } }

    private func failed(_ error: TransportError) {
        turn { state in
            state.problem = error.message
            if error.kind == .refused, configuration.tokenProvider != nil { state.token = nil }
            perform(state.machine.disconnected(reason: error.message, now: clock.now), &state)
            guard state.phase == .running else { return }
            stand(standing(after: error, state), &state)
        }
    }

    private func standing(after error: TransportError, _ state: State) -> ConnectionState {
        let isFirst = state.standing == .connecting
        switch error.kind {
        case .refused where state.standing == .tokenExpired: return .tokenExpired
        case .refused, .tls: return .refused(reason: error.message)
        case .lost, .ended, .takenOver, .unreachable, .invalid:
            if state.lastError == .tokenExpired, configuration.tokenProvider == nil { return .tokenExpired }
            return isFirst ? .connecting : .reconnecting(reason: error.message)
        }
    }

    /// Ended early by `stop` and `renew`.
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

    /// The app's first token, or another one after a refusal.
    private func obtainToken() async throws(TransportError) {
        guard let provider = configuration.tokenProvider, state.withLock({ $0.token }) == nil else { return }
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
        case .token(let token): state.withLock { $0.token = token }
        case .failure(let reason): throw TransportError(.refused, "no token: \(reason)")
        }
    }

    /// Before the present one ends. Until there is another one it lasts a while.
    func askForToken() {
        guard let provider = configuration.tokenProvider else { return }
        let source = TokenSource(provider: provider, timeout: configuration.tokenTimeout)
        let number = { [weak self] in self?.state.withLock { $0.phase == .running ? $0.linkNumber : nil } ?? nil }
        Task { [weak self] in
            guard let present = number() else { return }
            while number() == present {
                if case .token(let token) = await source.ask() {
                    if number() == present { self?.renew(token) }
                    return
                }
                try? await Task.sleep(for: Self.tokenRetry)
            }
        }
    }

    // MARK: One connection

    /// Returns when the connection is to be made anew, or the app disconnects.
    private func serveOneConnection() async throws(TransportError) {
        let session = randomToken()
        let (ended, endings) = AsyncStream.makeStream(of: TransportError?.self)
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
        // Without its will: the service goes on taking the device for online.
        turn { state in
            state.machine.renewing()
            state.link = nil
        }
        await link.close()
    }

    private func connect(_ session: String, _ number: Int) async throws(TransportError) -> any TransportConnection {
        let (transport, request) = (configuration.transport, connectionRequest(session))
        let attempt = Task { () -> Result<any TransportConnection, TransportError> in
            do throws(TransportError) {
                return .success(try await transport.connect(request) { [weak self] in self?.told($0, number) })
            } catch {
                return .failure(error)
            }
        }
        let limit = clock.now + Self.handshakeLimit
        let clock = clock
        let (results, inbox) = AsyncStream.makeStream(of: Result<any TransportConnection, TransportError>?.self)
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
        // What comes too late is nobody's.
        Task { if case .success(let link) = await attempt.value { await link.close() } }
        throw TransportError(.unreachable, "no answer from the broker within \(Self.handshakeLimit / 1000) s")
    }

    private func connectionRequest(_ session: String) -> ConnectionRequest {
        var topics = [configuration.topics.down(device)]
        if configuration.publishesPresence { topics.append(configuration.topics.down(device.userID)) }
        let will = OutgoingMessage(
            topic: configuration.topics.presence(device),
            payload: PresenceMessage(.offline(.lost), session: session).encoded())
        return ConnectionRequest(
            clientID: Topics.clientID(device), username: Topics.encode(device.userID),
            password: state.withLock { $0.token }, will: configuration.publishesPresence ? will : nil,
            keepAlive: configuration.keepAlive, topics: topics)
    }

    /// The broker has taken the connection and the subscriptions: presence goes out.
    private func opened(_ link: any TransportConnection, _ session: String) {
        turn { state in
            state.link = link
            state.wasOpened = true
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

    // MARK: What the transport tells

    private func told(_ event: TransportEvent, _ number: Int) {
        turn { state in
            guard state.linkNumber == number else { return }
            guard state.link != nil || state.isClosing(event) else {
                if state.early.count < Self.mostEarly { state.early.append(event) }
                return
            }
            took(event, &state)
        }
    }

    private func took(_ event: TransportEvent, _ state: inout State) {
        switch event {
        case .received(let payload, let isRetained):
            // Nothing of the service is retained: such a copy is stale.
            if !isRetained { receive(payload, &state) }
        case .closed(let error): state.endings?.yield(error)
        }
    }

    private func receive(_ payload: [UInt8], _ state: inout State) {
        let now = clock.now
        if let known = DownMessage.decode(payload) {
            heardOfTime(known, now, &state)
            perform(state.machine.received(known, now: now), &state)
            if case .welcome(let welcome) = known {
                state.effects += state.book.resynchronised(with: welcome, by: self)
            }
        } else if let (callID, revision) = unknownEvent(payload) {
            perform(state.machine.receivedUnknownEvent(callID, revision: revision, now: now), &state)
        }
    }

    /// An app that gives tokens only of its own accord is told when one ends. What comes before the first welcome waits for it: only then
    /// is the service's time known.
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

    /// An event of a later protocol: all that can be done with it is to ack it.
    private func unknownEvent(_ payload: [UInt8]) -> (CallID, Int)? {
        guard case .object(let json)? = try? JSONParser.parse(payload), json["type"]?.string == "event",
            let callID = json["callID"]?.string.flatMap(CallID.init), let revision = json["revision"]?.integer,
            revision >= 0
        else { return nil }
        return (callID, Int(revision))
    }

    // MARK: The end

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
                // Another thread may be the one that publishes: the connection is closed behind the goodbye.
                let link = state.link
                state.effects.append { said.resume(returning: link) }
            }
        }
        await link?.close()
        turn { close(&$0) }
    }
}

extension ClientDriver.State {
    fileprivate func isClosing(_ event: TransportEvent) -> Bool {
        if case .closed = event { true } else { false }
    }
}

/// Whether another connection has this device id, at brokers that do not say so.
struct RivalWatch {
    /// Two clients under one device id take it from each other as soon as they have it, in milliseconds.
    private static let soon: Int64 = 3_000
    /// The one that was there first is the first to have been displaced so often.
    private static let often = 3

    private var displaced = 0

    /// After `lasted` milliseconds a connection, or an attempt, came to its end. `isUnexplained`: it was a connection, and nobody has said why
    /// it was to end. A broker that is about to start, or a proxy before one that is not there, closes attempts without a word.
    mutating func isTakenOver(by error: TransportError, after lasted: Int64, isUnexplained: Bool) -> Bool {
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
