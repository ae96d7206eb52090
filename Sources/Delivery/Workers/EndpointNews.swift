import HTTPSending
import SignalingProtocol

/// What operators are told of an endpoint in the log.
package enum EndpointNews: Sendable, Equatable {
    /// It does not take what it is sent: the status that it answered, or why there was no answer.
    case refuses(String)
    /// It takes what it is sent, after it did not.
    case takes
    /// It has answered 410: nothing is sent to it until somebody turns it on.
    case off
    /// Somebody has turned it on again.
    case on
}

/// Tells a change, and no more than one a minute, however often the value changes: what it has become meanwhile is told after that.
struct BoundedChange<Value: Equatable> {
    static var pause: Int64 { 60_000 }

    private var told: Value
    private var next: Int64 = 0

    init(_ value: Value) { told = value }

    /// Whether the change to this value is to be told now.
    mutating func isToBeTold(_ value: Value, _ now: Int64) -> Bool {
        guard value != told, now >= next else { return false }
        (told, next) = (value, now + Self.pause)
        return true
    }
}

extension HTTPAnswer.Outcome {
    /// For an operator: the status, or why there was no answer. It names no part of the URL. Nil when the endpoint was not asked.
    var text: String? {
        switch self {
        case .answered(let response):
            switch response.status {
            case 301, 302, 303, 307, 308: "redirect (HTTP \(response.status)), which is not followed"
            default: "HTTP \(response.status)"
            }
        case .failed(let reason, _): String(reason.prefix(200))
        case .notTried, .notHandedOver: nil
        }
    }
}
