import CallCore
import HTTPSending
import SignalingProtocol
import Support
import Tokens

/// The next step for a push.
package enum PushPreparation: Sendable {
    case send(HTTPRequest)
    /// The provider requires an access token first. The request for the token is to be sent; nil while such a request
    /// is under way. The response goes to `tokenAnswered`; then the push is prepared again.
    case waitForToken(HTTPRequest?)
    /// No token is available; a new request for a token is allowed after so many milliseconds.
    case again(after: Milliseconds, reason: String)
    /// The push cannot be sent.
    case refused(reason: String)
}

/// Makes the requests to providers, interprets their responses, and keeps the access tokens. A process has a single
/// instance, for a single thread.
///
/// `now` is the store's time, for lifetimes; `wall` is the time of day, because providers compare times with their own
/// clocks (docs/decisions/0024).
package final class PushProviders {
    private enum UsedToken {
        case apns(WallTime)
        case fcm(Int)
        case vapid(VAPIDTokens.Key, WallTime)
    }

    /// The bound of a whole request, in milliseconds.
    static let timeout: Int64 = 10_000
    /// The bound of a response, in bytes.
    static let mostAnswer = 64 * 1_024

    private let settings: PushSettings
    private var apnsTokens = APNsTokens()
    private var accessTokens = AccessTokens()
    private var vapidTokens = VAPIDTokens()
    /// The token of each request, by the request's id.
    private var used: [UInt64: UsedToken] = [:]
    /// The account of each request for an access token, by the request's id.
    private var asked: [UInt64: AccessTokens.Account] = [:]

    package init(_ settings: PushSettings) { self.settings = settings }

    /// Prepares a push. The response to each request must be passed to `verdict`, or to `tokenAnswered`.
    /// - Parameter id: the id of the request.
    package func prepare(
        _ push: OutgoingPush, id: UInt64, now: Milliseconds, wall: WallTime
    ) -> PushPreparation {
        let push = push.leaving(at: now)
        guard let app = settings.apps[push.registration.key.app] else {
            return .refused(reason: "the push settings have no such app")
        }
        do throws(TokenError) {
            switch push.registration.key.platform {
            case .apns, .apnsVoIP:
                if let apns = app.apns { return try apnsRequest(push, apns, app.shape, id, now, wall) }
            case .fcm:
                if let fcm = app.fcm { return try fcmRequest(push, fcm, app.shape.fcm, id, now, wall) }
            case .webPush:
                if let webPush = app.webPush { return try webPushRequest(push, webPush, id, now, wall) }
            }
        } catch {
            return .refused(reason: error.description)
        }
        return .refused(reason: "the app's push settings have no such platform")
    }

    private func apnsRequest(
        _ push: OutgoingPush, _ settings: APNsSettings, _ shape: PushShape, _ id: UInt64, _ now: Milliseconds,
        _ wall: WallTime
    ) throws(TokenError) -> PushPreparation {
        guard case .token(let device) = push.registration.target else { return .refused(reason: "not a token") }
        let token = try apnsTokens.token(settings, at: wall)
        used[id] = .apns(token.time)
        return send(
            APNs.request(push, to: device, settings, shape: shape, token: token.text, id: id, now: now, wall: wall))
    }

    private func fcmRequest(
        _ push: OutgoingPush, _ settings: FCMSettings, _ shape: PushTemplate?, _ id: UInt64, _ now: Milliseconds,
        _ wall: WallTime
    ) throws(TokenError) -> PushPreparation {
        guard case .token(let device) = push.registration.target else { return .refused(reason: "not a token") }
        let account = settings.account.account
        switch accessTokens.standing(account, at: now) {
        case .usable(let token, let number):
            used[id] = .fcm(number)
            return send(FCM.request(push, to: device, settings, shape: shape, token: token, id: id, now: now))
        case .underWay: return .waitForToken(nil)
        case .failed(let after, let reason): return .again(after: after, reason: reason)
        case .missing:
            let request = try FCM.tokenRequest(settings.account, id: id, wall: wall)
            accessTokens.asked(account)
            asked[id] = account
            return .waitForToken(request)
        }
    }

    private func webPushRequest(
        _ push: OutgoingPush, _ settings: WebPushSettings, _ id: UInt64, _ now: Milliseconds, _ wall: WallTime
    ) throws(TokenError) -> PushPreparation {
        guard let subscription = WebPush.Subscription(push.registration.target) else {
            return .refused(reason: "not a subscription")
        }
        let key = VAPIDTokens.Key(app: push.registration.key.app, origin: subscription.origin)
        let token = try vapidTokens.token(key, settings, at: wall)
        used[id] = .vapid(key, token.time)
        return send(try WebPush.request(push, to: subscription, settings, token: token.text, id: id, now: now))
    }

    private func send(_ request: HTTPRequest) -> PushPreparation {
        guard request.url.utf8.count <= HTTPRequest.longestURL else {
            used[request.id] = nil
            return .refused(reason: "the URL is longer than \(HTTPRequest.longestURL) bytes")
        }
        var request = request
        request.timeout = Self.timeout
        request.mostAnswer = Self.mostAnswer
        return .send(request)
    }

    // MARK: Answers

    /// Takes the response to a request for a token. Returns nil when the response belongs to another request.
    package func tokenAnswered(_ answer: HTTPAnswer, now: Milliseconds) -> TokenOutcome? {
        guard let account = asked.removeValue(forKey: answer.id) else { return nil }
        return accessTokens.answered(account, answer, at: now)
    }

    /// Returns the meaning of the response to `push`, given as `prepare` took the push.
    package func verdict(
        of answer: HTTPAnswer, for push: OutgoingPush, now: Milliseconds, wall: WallTime
    ) -> PushVerdict {
        let used = used.removeValue(forKey: answer.id)
        switch answer.outcome {
        case .notHandedOver: return PushVerdict(.notHandedOver)
        case .notTried(let reason), .failed(let reason, _): return PushVerdict(.again(after: nil), reason: reason)
        case .answered(let response):
            let meaning = meaning(of: response, push, now, wall)
            let step: PushVerdict.Step
            switch meaning.kind {
            case .taken: step = .sent
            case .gone: step = .gone
            case .refused: step = .refused
            case .unauthorized: step = renewed(used, push, now, wall) && !push.hasNewToken ? .newToken : .refused
            case .later: step = .again(after: response.retryAfter.map { Milliseconds($0) * 1_000 })
            }
            return PushVerdict(step, status: response.status, reason: meaning.reason)
        }
    }

    private func meaning(
        of response: HTTPAnswer.Response, _ push: OutgoingPush, _ now: Milliseconds, _ wall: WallTime
    ) -> ProviderAnswer {
        switch push.registration.key.platform {
        case .apns, .apnsVoIP: APNs.meaning(of: response, registered: push.registration.made(at: wall, now: now))
        case .fcm: FCM.meaning(of: response)
        case .webPush: WebPush.meaning(of: response)
        }
    }

    /// Whether later requests use another token than the refused token.
    private func renewed(
        _ used: UsedToken?, _ push: OutgoingPush, _ now: Milliseconds, _ wall: WallTime
    ) -> Bool {
        let app = settings.apps[push.registration.key.app]
        switch used {
        case .apns(let time): return app?.apns.map { apnsTokens.refused($0, madeAt: time, at: wall) } ?? false
        case .fcm(let number):
            return app?.fcm.map { accessTokens.refused($0.account.account, number: number, at: now) } ?? false
        case .vapid(let key, let time):
            vapidTokens.refused(key, madeAt: time)
            return true
        case nil: return false
        }
    }
}

/// The meaning of a provider's response.
struct ProviderAnswer: Equatable {
    enum Kind: Equatable {
        case taken
        case gone
        case refused
        case unauthorized
        /// A later attempt may succeed.
        case later
    }

    let kind: Kind
    var reason: String?

    /// The meaning of a status alone, where the response says nothing more.
    static func kind(_ status: Int) -> Kind {
        switch status {
        case 200...299: .taken
        case 401, 403: .unauthorized
        case 429, 500...599: .later
        default: .refused
        }
    }
}

extension PushRegistration {
    /// Returns the time of the registration by the wall clock, whose present time is `wall`: `wall` minus the
    /// registration's age by the store's time. While the store's time follows a clock that was set, the age may be a
    /// thousandth too long; therefore this function returns the latest possible moment. A registration kept by mistake
    /// costs a request; a registration ended by mistake leaves a phone silent.
    func made(at wall: WallTime, now: Milliseconds) -> WallTime {
        let age = max(0, now - since)
        return wall + -(age - age / 1_000)
    }
}

extension ServiceAccount {
    fileprivate var account: AccessTokens.Account { .init(email: email, url: tokenURL.text) }
}
