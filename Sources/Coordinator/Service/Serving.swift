import CallCore
import CallStore
import SignalingProtocol

/// The state shared by queued requests that were begun together: the time of their decisions, and the outbound messages
/// that are published at their end.
final class Serving {
    let context: ServiceContext
    /// The store's time, in milliseconds, read before the decisions of each batch.
    private(set) var now: Milliseconds = 0
    private(set) var outbox: [OutboundMessage] = []

    var store: any CallStore { context.store }
    var settings: ServiceSettings { context.settings }

    /// Creates the state; `now` is the store's time, if read already.
    init(_ context: ServiceContext, now: Milliseconds = 0) {
        self.context = context
        self.now = now
    }

    /// Reads the store's clock. Throws when the clock cannot be read, since no decision may rest on a wrong time.
    func readClock() async throws(StoreError) { now = try await store.now() }

    /// Charges `bytes`, sent because of this user, to the user's limit.
    func charge(_ bytes: Int, to user: UserID) { context.budgets.charge(bytes, to: .sentBytes(user), now: now) }

    func publish(_ message: OutboundMessage) { outbox.append(message) }

    /// Removes the outbound messages at these places of `outbox`.
    func withdraw(_ places: [Int]) { for place in places.sorted().reversed() { outbox.remove(at: place) } }

    /// Counts the outbound messages as sent and returns the messages.
    func finish() -> [OutboundMessage] {
        defer { outbox = [] }
        context.counters.add(.messagesSent, outbox.count)
        context.counters.add(.eventsTrimmed, outbox.count(where: \.isTrimmed))
        return outbox
    }

    // MARK: Refusing

    /// Refuses a request because the coordinator is overloaded. The response asks the device to try again later; a
    /// message that has no response is dropped, since its device sends it again.
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
