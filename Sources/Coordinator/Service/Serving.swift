import CallCore
import CallStore
import SignalingProtocol

/// Works on their way that were begun together: as of when they are judged, and what is to be published once they are done.
final class Serving {
    let context: ServiceContext
    /// The store's clock, read before each round of decisions.
    private(set) var now: Milliseconds = 0
    private(set) var outbox: [OutboundMessage] = []

    var store: any CallStore { context.store }
    var settings: ServiceSettings { context.settings }

    /// `now`: when that was read already.
    init(_ context: ServiceContext, now: Milliseconds = 0) {
        self.context = context
        self.now = now
    }

    /// Nothing is decided by a clock that may be wrong.
    func readClock() async throws(StoreError) { now = try await store.now() }

    /// So many bytes were sent because of this user.
    func charge(_ bytes: Int, to user: UserID) { context.budgets.charge(bytes, to: .sentBytes(user), now: now) }

    func publish(_ message: OutboundMessage) { outbox.append(message) }

    /// Takes back what stands at these places of what is to be published.
    func withdraw(_ places: [Int]) { for place in places.sorted().reversed() { outbox.remove(at: place) } }

    /// Hands over what is to be published, which is counted as sent.
    func finish() -> [OutboundMessage] {
        defer { outbox = [] }
        context.counters.add(.messagesSent, outbox.count)
        context.counters.add(.eventsTrimmed, outbox.count(where: \.isTrimmed))
        return outbox
    }

    // MARK: What cannot be served now

    /// There is more to do than can be done: whoever asks is told to ask again later; what has no answer comes again by itself.
    func refuseEarly(_ item: Round.Item, from device: DeviceAddress, because reason: String) {
        context.counters.add(.refusedEarly, reason)
        let error = SignalingError.overloaded(retryAfter: ServiceBounds.overloadRetry)
        switch item {
        case .call(_, .request(let received)), .user(let received), .message(_, .send(let received, _)):
            refuse(received.request.id, error, received.device, received.path)
        case .call(_, .signal(let received)):
            if let id = received.id {
                refuse(id, error, device, received.path)
            } else {
                publish(context.encoder.refusal(error, topic: settings.topics.down(device)))
            }
        case .call, .message, .presence, .nothing: break
        }
    }

    private func refuse(_ id: RequestID, _ error: SignalingError, _ device: DeviceAddress, _ path: ReplyPath) {
        guard path.isWanted else { return }
        publish(context.encoder.response(id, .failure(error), to: device, path))
        context.counters.add(.responses, error.code.rawValue)
    }

    func answerUnavailable(_ work: MessageWork) {
        for case .send(let received, _) in work.events { answerUnavailable(received) }
    }

    func answerUnavailable(_ work: CallWork) {
        for event in work.events {
            switch event {
            case .request(let received): answerUnavailable(received)
            case .signal(let received):
                if let id = received.id {
                    answerUnavailable(id, received.device, received.path)
                } else {
                    context.counters.add(.messagesRefused, ErrorCode.unavailable.rawValue)
                    publish(context.encoder.refusal(.unavailable, topic: settings.topics.down(received.device)))
                }
            case .ack, .heartbeat, .cameOnline, .wentOffline, .registered, .deadline, .released: break
            }
        }
    }

    func answerUnavailable(_ received: ReceivedRequest) {
        answerUnavailable(received.request.id, received.device, received.path)
    }

    private func answerUnavailable(_ id: RequestID, _ device: DeviceAddress, _ path: ReplyPath) {
        refuse(id, .unavailable, device, path)
    }
}
