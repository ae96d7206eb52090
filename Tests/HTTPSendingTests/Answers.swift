import Glibc
import Testing

@testable import HTTPSending

extension AddressRules {
    /// The rules that let a test ask its own servers.
    static let loopback = AddressRules(allowedNetworks: [Network("127.0.0.0/8")!])
}

extension HTTPSender {
    /// Waits until `count` answers have come, but not for ever.
    func answers(_ count: Int) throws -> [HTTPAnswer] {
        var answers: [HTTPAnswer] = []
        while answers.count < count {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            try #require(poll(&waiting, 1, 30_000) == 1, "\(answers.count) of \(count) answers")
            answers += take()
        }
        return answers
    }

    /// Sends a request and returns its outcome, which must come within `milliseconds`.
    func outcome(_ request: HTTPRequest, within milliseconds: Int64 = 30_000) throws -> HTTPAnswer.Outcome {
        send(request)
        let answers = try answers(1)
        #expect(answers[0].took < milliseconds)
        return answers[0].outcome
    }
}

extension HTTPAnswer.Outcome {
    var response: HTTPAnswer.Response? {
        if case .answered(let response) = self { response } else { nil }
    }

    var reason: String? {
        switch self {
        case .failed(let reason, _), .notTried(let reason): reason
        case .answered, .notHandedOver: nil
        }
    }

    var wasHandedOver: Bool {
        switch self {
        case .failed(_, let wasHandedOver): wasHandedOver
        case .notTried, .notHandedOver: false
        case .answered: true
        }
    }
}

/// Waits until `condition` holds, but not for ever.
func eventually(_ condition: () -> Bool) throws {
    for _ in 0..<15_000 {
        if condition() { return }
        usleep(2_000)
    }
    try #require(Bool(false), "it never came to be")
}
