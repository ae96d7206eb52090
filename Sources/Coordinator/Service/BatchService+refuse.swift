import CallCore
import SignalingProtocol

/// Refuses requests: early because of overload, or after the store did not answer.
extension BatchService {
    /// Refuses a request because the coordinator is overloaded. The response asks the device to try again later; a
    /// message that has no response is dropped, since its device sends it again.
    func refuseEarly(_ content: RequestContent, from device: DeviceAddress, because reason: String) {
        context.counters.add(.refusedEarly, reason)
        let error = SignalingError.overloaded(retryAfter: ServiceBounds.overloadRetry)
        switch content {
        case .call(_, .request(let received)), .user(let received), .message(_, .send(let received, _)):
            refuse(received.request.id, error, received.device, received.path)
        case .call(_, .signal(let received)):
            if let id = received.id {
                refuse(id, error, device, received.path)
            } else {
                send(context.encoder.refusal(error, topic: settings.topics.down(device), received.path.brokers))
            }
        case .call, .message, .presence, .nothing: break
        }
    }

    private func refuse(_ id: RequestID, _ error: SignalingError, _ device: DeviceAddress, _ path: ReplyPath) {
        guard path.isWanted else { return }
        send(context.encoder.response(id, .failure(error), to: device, path))
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
                    send(
                        context.encoder.refusal(
                            .unavailable, topic: settings.topics.down(received.device), received.path.brokers))
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
