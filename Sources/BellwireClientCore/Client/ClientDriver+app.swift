import SignalingProtocol

/// The calls that an app makes on a client.
extension ClientDriver {
    static let disconnected = SignalingError(.disconnected, "the client is disconnected")

    /// Sends a request. `completion` is called once, in the driver's order. `within` is the time limit of the request,
    /// at most `requestTimeout`; nil means `requestTimeout`.
    func send(
        _ request: Request, within: Duration? = nil, isOrdered: Bool = false, then completion: @escaping Completion
    ) {
        turn { state in
            guard state.phase != .stopping, state.phase != .closed else {
                return state.effects.append { completion(.failure(Self.disconnected)) }
            }
            state.completions[request.id] = completion
            log(.debug, &state, "request \(request.id) begins: \(request.body.type)")
            let actions = state.machine.send(
                request, within: within?.milliseconds, ordered: isOrdered, now: clock.now)
            perform(actions, &state)
        }
    }

    /// Sends a signal; returns false when the client has stopped and the signal is dropped.
    func send(_ signal: Request.Signal) -> Bool {
        turn { state in
            guard state.phase != .stopping, state.phase != .closed else { return false }
            perform(state.machine.send(signal, now: clock.now), &state)
            return true
        }
    }

    // MARK: Deliveries

    /// Sends a peer message and waits for its receipt. `waiter` is called once, with nil when a device of the recipient
    /// has acknowledged the message. The machine bounds the number of requests, and so the number of waits.
    func deliver(
        _ message: Request.Message, within: Duration, isOrdered: Bool, then waiter: @escaping DeliveryWaiter
    ) {
        guard let messageID = message.messageID else { preconditionFailure("a delivery has an id") }
        turn { $0.deliveryWaiters[messageID] = waiter }
        let request = Request(id: requests.makeID(), body: .message(message))
        send(request, within: within, isOrdered: isOrdered) { [self] outcome in
            if case .failure(let error) = outcome { turn { settle(messageID, error, &$0) } }
        }
        Task { [weak self] in
            try? await Task.sleep(for: within)
            self?.turn { self?.settle(messageID, Self.notDelivered, &$0) }
        }
    }

    func received(_ receipt: BellwireReceipt, _ state: inout State) {
        settle(receipt.messageID, receipt.state == .delivered ? nil : Self.notDelivered, &state)
    }

    private func settle(_ messageID: MessageID, _ error: SignalingError?, _ state: inout State) {
        guard let waiter = state.deliveryWaiters.removeValue(forKey: messageID) else { return }
        state.effects.append { waiter(error) }
    }

    private static let notDelivered = SignalingError(.notDelivered, "no device acknowledged the message in time")

    var orphanedCalls: [CallID] { turn { $0.machine.orphanedCalls } }

    func heartbeat(_ callID: CallID) {
        turn { perform($0.machine.heartbeat(callID, now: clock.now), &$0) }
    }

    // MARK: Connecting

    /// Connects. `waiter` is called once: with nil when the service knows this device, or, without `wantsService`, when
    /// the broker has accepted the connection.
    func connect(wantsService: Bool = true, then waiter: @escaping @Sendable (SignalingError?) -> Void) {
        let number = turn { state -> Int? in
            guard state.phase == .idle || state.phase == .running else {
                state.effects.append { waiter(Self.disconnected) }
                return nil
            }
            guard state.standing != .connected, wantsService || state.link == nil else {
                state.effects.append { waiter(nil) }
                return nil
            }
            state.waiterCount += 1
            state.connectWaiters[state.waiterCount] = .init(wantsService: wantsService, resume: waiter)
            if state.phase == .idle { start(&state) }
            return state.waiterCount
        }
        guard let number else { return }
        let limit = configuration.connectTimeout
        Task { [weak self] in
            try? await Task.sleep(for: limit)
            self?.connectTimedOut(waiter: number)
        }
    }

    private func start(_ state: inout State) {
        state.phase = .running
        stand(.connecting, &state)
        Task.detached { await self.run() }
    }

    /// Gives up a single wait for the connection; the client goes on trying.
    private func connectTimedOut(waiter number: Int) {
        turn { state in
            guard let waiter = state.connectWaiters.removeValue(forKey: number) else { return }
            let error =
                refusal(state)
                ?? SignalingError(.notConnected, "cannot reach the \(missing(state)): \(state.problem)")
            state.effects.append { waiter.resume(error) }
        }
    }

    private func missing(_ state: State) -> String { state.link == nil ? "broker" : "service" }

    /// Connects with another token that the app supplies of its own accord.
    func renew(_ token: String) {
        turn { state in
            state.token = token
            state.endings?.yield(nil)
            state.pause?.cancel()
        }
    }

    /// Asks the broker for a sign of life on the present connection; ends a pause between two attempts.
    func networkChanged() {
        turn { state in
            if let link = state.link { state.effects.append { link.probe() } }
            state.pause?.cancel()
        }
    }

    // MARK: Disconnecting

    func stop(then closed: @escaping Effect) {
        turn { state in
            switch state.phase {
            case .closed: state.effects.append(closed)
            case .idle:
                close(&state)
                state.effects.append(closed)
            case .running, .stopping:
                state.closeWaiters.append(closed)
                state.phase = .stopping
                state.endings?.yield(nil)
                state.pause?.cancel()
                state.abandon?()
            }
        }
    }

    /// Closes the client for good, and answers all waiters.
    func close(_ state: inout State) {
        guard state.phase != .closed else { return }
        perform(state.machine.loggedOut(now: clock.now), &state)
        state.phase = .closed
        state.link = nil
        for completion in state.completions.values { state.effects.append { completion(.failure(Self.disconnected)) } }
        state.completions = [:]
        for waiter in state.deliveryWaiters.values { state.effects.append { waiter(Self.disconnected) } }
        state.deliveryWaiters = [:]
        if state.standing != .takenOver { stand(.disconnected, &state) }
        answerWaiters(Self.disconnected, &state)
        state.effects += state.closeWaiters
        state.closeWaiters = []
        state.effects.append { [self] in
            events.finish()
            // A call holds its client's driver: calls that no reader has taken would keep both alive.
            incomingCalls.withdraw { _ in true }
            incomingCalls.finish()
        }
        state.effects += state.book.closed()
    }
}
