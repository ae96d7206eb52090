import HTTPSending
import SignalingProtocol

/// The meaning of a receiver's answer to spans (OTLP/HTTP).
enum SpanVerdict: Equatable {
    /// The receiver has accepted the spans, except `rejected` of them for the reason of the receiver.
    case taken(rejected: Int, reason: String?)
    /// The same spans may be accepted later; `after` are the seconds for which the receiver asks.
    case again(after: Int?)
    /// The receiver will never accept these spans.
    case refused

    private static let longestReason = 200

    init(_ outcome: HTTPAnswer.Outcome) {
        guard case .answered(let response) = outcome else {
            self = .again(after: nil)
            return
        }
        switch response.status {
        case 200..<300: self = Self.taken(response.body)
        case 429, 502, 503, 504: self = .again(after: response.retryAfter)
        default: self = .refused
        }
    }

    /// Reads `partialSuccess`. A body that is no OTLP counts as a plain success, as the status says.
    private static func taken(_ body: [UInt8]) -> SpanVerdict {
        guard case .object(let json)? = try? JSONParser.parse(body), let partial = json["partialSuccess"]?.object else {
            return .taken(rejected: 0, reason: nil)
        }
        let number = partial["rejectedSpans"]
        let rejected = number?.integer ?? number?.string.flatMap { Int64($0) } ?? 0
        let reason = partial["errorMessage"]?.string.map { String($0.prefix(longestReason)) }
        return .taken(rejected: Int(clamping: max(0, rejected)), reason: reason.flatMap { $0.isEmpty ? nil : $0 })
    }
}
