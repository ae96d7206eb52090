import CallCore
import Delivery
import HTTPSending
import SignalingProtocol
import Support

/// Sends a push once, outside of the queue of pushes, and waits for the provider's answer.
struct SinglePush {
    enum Outcome {
        case answered(PushVerdict)
        /// This program sends no such push.
        case refused(String)
        /// The provider could not be reached, or gave no access token.
        case failed(String)
    }

    let providers: PushProviders
    let sender: HTTPSender
    /// The end of the time for all requests, by the clock of the boot.
    let end: Milliseconds
    /// Returns the time that the push and its token are judged by.
    let now: () throws -> Milliseconds

    /// Asks for an access token where the provider wants one, sends the push, and sends it once more with a new token
    /// where the provider refuses the token.
    /// - Parameter number: differs from that of the sender's other pushes.
    func send(_ push: OutgoingPush, number: UInt64) throws -> Outcome {
        var push = push
        var id = number << 32
        while SystemClock.boot.milliseconds < end {
            id += 1
            switch providers.prepare(push, id: id, now: try now(), wall: .now) {
            case .refused(let reason): return .refused(reason)
            case .again(_, let reason): return .failed(reason)
            case .waitForToken(let request):
                guard let request else { return .failed("no token of the provider") }
                guard let answer = sender.answer(to: request, before: end) else { continue }
                if case .failed(_, let reason)? = providers.tokenAnswered(answer, now: try now()) {
                    return .failed(reason)
                }
            case .send(let request):
                guard let answer = sender.answer(to: request, before: end) else { continue }
                let verdict = providers.verdict(of: answer, for: push, now: try now(), wall: .now)
                guard case .newToken = verdict.step else { return .answered(verdict) }
                push.hasNewToken = true
            }
        }
        return .failed("no answer of the provider")
    }
}
