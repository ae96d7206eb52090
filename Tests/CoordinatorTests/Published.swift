import CallCore
import SignalingProtocol

/// A message that the service published, with the time of the publication.
struct Published {
    let at: Milliseconds
    /// The levels below `down/`.
    let topic: String
    let payload: [UInt8]
    let correlationData: [UInt8]?
    let expirySeconds: UInt32
    let message: DownMessage

    var event: Event? { if case .event(let event) = message { event } else { nil } }
    var response: Response? { if case .response(let response) = message { response } else { nil } }

    /// The message in short: topic, then the event with its revision, or the outcome.
    var line: String {
        switch message {
        case .event(let event): "\(topic) \(event.name.rawValue) \(event.revision)"
        case .response(let response):
            switch response.outcome {
            case .success(let success): "\(topic) ok \(success.call.revision)" + (success.merged ? " merged" : "")
            case .answer(.message(let id, _, let state)): "\(topic) ok \(id) \(state.rawValue)"
            case .answer: "\(topic) ok"
            case .failure(let error): "\(topic) \(error.code)" + (error.state.map { " " + $0 } ?? "")
            }
        case .welcome(let welcome):
            "\(topic) welcome \(welcome.session)" + welcome.calls.map { " \($0.callID)" }.joined()
        case .error(let error): "\(topic) error \(error.code)"
        case .signal(let signal): "\(topic) signal \(signal.data)"
        case .message(let message): "\(topic) message \(message.messageID) \(message.data)"
        case .receipt(let receipt): "\(topic) receipt \(receipt.messageID) \(receipt.state.rawValue)"
        case .tokenWillExpire: "\(topic) tokenWillExpire"
        }
    }
}
