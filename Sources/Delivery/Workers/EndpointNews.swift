import HTTPSending
import SignalingProtocol

/// The news of an endpoint for operators, in the log.
package enum EndpointNews: Sendable, Equatable {
    /// The endpoint does not accept events; the text is the status, or the reason why no response came.
    case refuses(String)
    /// The endpoint accepts events again.
    case takes
    /// The endpoint has answered 410; no event is sent until an operator turns the endpoint on.
    case off
    /// An operator has turned the endpoint on again.
    case on
}

/// Limits the reports of a changing value to one a minute. A change within a minute after a report is reported at the
/// end of that minute, if the value still differs then.
struct BoundedChange<Value: Equatable> {
    static var pause: Int64 { 60_000 }

    private var told: Value
    private var next: Int64 = 0

    init(_ value: Value) { told = value }

    /// Whether `isToBeTold` would return true.
    func isDue(_ value: Value, _ now: Int64) -> Bool { value != told && now >= next }

    /// Whether the change to this value is to be reported now.
    mutating func isToBeTold(_ value: Value, _ now: Int64) -> Bool {
        guard isDue(value, now) else { return false }
        (told, next) = (value, now + Self.pause)
        return true
    }
}

extension HTTPAnswer.Outcome {
    /// The outcome for operators: the status, or the reason why no response came. The text contains no part of the URL.
    /// Nil when the endpoint was not reached.
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
