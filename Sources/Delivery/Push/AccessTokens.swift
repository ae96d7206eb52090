import CallCore
import HTTPSending
import SignalingProtocol
import Tokens

/// The outcome of a request for a provider's access token.
package enum TokenOutcome: Equatable, Sendable {
    /// The token has arrived, so the waiting pushes can be prepared.
    case ready
    /// No token has arrived; a new request is allowed after so many milliseconds.
    case failed(after: Milliseconds, reason: String)
}

/// Google's access tokens. Each is requested with an assertion that the service account signs (RFC 7523, section 2.1),
/// and is used until five minutes before its end (until half its life, if its life is shorter than ten minutes).
struct AccessTokens {
    struct Account: Hashable {
        let email: String
        let url: String
    }

    enum Standing {
        /// The token, and its number among the tokens of this account.
        case usable(String, number: Int)
        /// No token is known: the caller must request a token.
        case missing
        case underWay
        case failed(after: Milliseconds, reason: String)
    }

    private struct AccessTokenState {
        var token: String?
        var number = 0
        var usableUntil: Milliseconds = 0
        var isUnderWay = false
        var failures = 0
        var failure: (reason: String, until: Milliseconds)?
        /// The times of the last minute when a token was given up before its end.
        var givenUp: [Milliseconds] = []
    }

    /// A token is not used in this time before its end, because a request may be under way for a while.
    static let margin: Milliseconds = 5 * 60_000
    /// The bound of tokens given up early per minute. The bound keeps refusals with another cause than the token from
    /// requesting new tokens without end.
    static let mostGivenUp = 10
    private static let longestToken = 8 * 1_024
    private static let longestPause: Milliseconds = 60_000

    private var states: [Account: AccessTokenState] = [:]

    func standing(_ account: Account, at now: Milliseconds) -> Standing {
        guard let state = states[account] else { return .missing }
        if let token = state.token, now < state.usableUntil { return .usable(token, number: state.number) }
        if state.isUnderWay { return .underWay }
        if let failure = state.failure, now < failure.until {
            return .failed(after: failure.until - now, reason: failure.reason)
        }
        return .missing
    }

    mutating func asked(_ account: Account) { states[account, default: AccessTokenState()].isUnderWay = true }

    mutating func answered(_ account: Account, _ answer: HTTPAnswer, at now: Milliseconds) -> TokenOutcome {
        var state = states[account] ?? AccessTokenState()
        defer { states[account] = state }
        state.isUnderWay = false
        var pause = min(Self.longestPause, 1_000 << min(6, state.failures))
        let reason: String
        switch answer.outcome {
        case .answered(let response):
            if response.status == 200, let (token, life) = Self.read(response.body) {
                state.token = token
                state.number += 1
                state.usableUntil = now + life - min(Self.margin, life / 2)
                state.failures = 0
                state.failure = nil
                return .ready
            }
            if let asked = response.retryAfter { pause = max(pause, Milliseconds(asked) * 1_000) }
            reason = "no access token: status \(response.status)\(Self.error(response.body).map { ", \($0)" } ?? "")"
        case .notTried(let text), .failed(let text, _): reason = "no access token: \(text)"
        case .notHandedOver: reason = "no access token: the request was not sent in time"
        }
        state.failures += 1
        state.failure = (reason, now + pause)
        return .failed(after: pause, reason: reason)
    }

    /// Notes that a request with this token was refused. Returns whether later requests use another token.
    mutating func refused(_ account: Account, number: Int, at now: Milliseconds) -> Bool {
        guard var state = states[account] else { return true }
        if state.number != number || state.token == nil { return true }
        state.givenUp.removeAll { now - $0 >= 60_000 }
        guard state.givenUp.count < Self.mostGivenUp else { return false }
        state.givenUp.append(now)
        state.token = nil
        states[account] = state
        return true
    }

    /// The token, and its life in milliseconds (RFC 6749, section 5.1).
    private static func read(_ body: [UInt8]) -> (token: String, life: Milliseconds)? {
        guard let json = (try? JSONParser.parse(body))?.object, let token = json["access_token"]?.string,
            (1...longestToken).contains(token.utf8.count), token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let seconds = json["expires_in"]?.integer, (1...86_400).contains(seconds)
        else { return nil }
        return (token, seconds * 1_000)
    }

    /// The error code of a response (RFC 6749, section 5.2).
    private static func error(_ body: [UInt8]) -> String? {
        safeReason((try? JSONParser.parse(body))?.object?["error"]?.string)
    }
}

/// Returns a provider's reason if it consists of letters, digits, `_` and `-`, else nil.
func safeReason(_ text: String?) -> String? { text.flatMap { isToken($0) ? $0 : nil } }
