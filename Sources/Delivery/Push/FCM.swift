import CallCore
import HTTPSending
import SignalingProtocol
import Support
import Tokens

/// The requests to Firebase Cloud Messaging (HTTP v1 API), and the meaning of its responses.
enum FCM {
    /// The bound of a message's data and notification, in bytes, field names included.
    static let mostBytes = 4_096
    private static let dataName = "bellwire"
    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// Seconds; Google accepts no longer life of an assertion.
    private static let assertionLife: Int64 = 3_600

    static func request(
        _ push: OutgoingPush, to token: String, _ settings: FCMSettings, shape: PushTemplate?, token bearer: String,
        id: UInt64, now: Milliseconds
    ) -> HTTPRequest {
        // A device that was sent `ring` must stop ringing: with a `notification`, Android would not hand the push to an
        // app in the background.
        let hasNotification = push.content.kind == .missed && !push.wasRung
        let (content, shape) = trimmed(push.content, shape: shape, hasNotification: hasNotification)
        let body = JSONWriter.object { writer in
            writer.object("message") { writer in
                writer.field("token", token)
                writer.object("data") { writer in
                    writer.field("bellwire", String(decoding: content.json, as: UTF8.self))
                    for member in shape?.members ?? [] {
                        writer.field(named: member.name, JSONText(string: member.value.text).bytes[...])
                    }
                }
                if hasNotification {
                    writer.object("notification") { writer in
                        writer.field("title", content.title)
                        writer.field("body", content.body)
                    }
                }
                writer.object("android") { writer in
                    writer.field("priority", "HIGH")
                    writer.field("ttl", "\(push.life(at: now) / 1_000)s")
                }
            }
        }
        var request = HTTPRequest(
            id: id,
            url: "\(settings.endpoint.text)/v1/projects/\(percentEncoded(settings.account.project))/messages:send",
            headers: [("authorization", "Bearer \(bearer)"), ("content-type", "application/json")], body: body)
        request.isToProvider = true
        return request
    }

    /// Whether FCM refuses the name in a message's data.
    static func isReserved(_ name: String) -> Bool {
        ["from", "message_type", "collapse_key"].contains(name) || name.hasPrefix("google.") || name.hasPrefix("gcm.")
    }

    static func trimmed(
        _ content: PushContent, shape: PushTemplate? = nil, hasNotification: Bool
    ) -> (content: PushContent, shape: FilledTemplate?) {
        content.trimmed(to: mostBytes, shape: shape) { content, shape in
            var size = dataName.utf8.count + content.json.count
            for member in shape?.members ?? [] { size += member.name.utf8.count + member.value.text.utf8.count }
            if hasNotification {
                for (name, text) in [("title", content.title), ("body", content.body)] {
                    size += text.map { name.utf8.count + $0.utf8.count } ?? 0
                }
            }
            return size
        }
    }

    /// Returns a request for an access token (RFC 7523, section 2.1).
    static func tokenRequest(
        _ account: ServiceAccount, id: UInt64, wall: WallTime
    ) throws(TokenError) -> HTTPRequest {
        let assertion = try JSONWebToken.signed(by: account.key, id: account.keyID) { writer in
            writer.field("iss", account.email)
            writer.field("scope", scope)
            writer.field("aud", account.tokenURL.text)
            writer.field("iat", wall.seconds)
            writer.field("exp", wall.seconds + assertionLife)
        }
        // An assertion has no character that must be percent-encoded.
        let body = "grant_type=\(percentEncoded("urn:ietf:params:oauth:grant-type:jwt-bearer"))&assertion=\(assertion)"
        var request = HTTPRequest(
            id: id, url: account.tokenURL.text, headers: [("content-type", "application/x-www-form-urlencoded")],
            body: Array(body.utf8))
        request.isToProvider = true
        request.timeout = PushProviders.timeout
        request.mostAnswer = PushProviders.mostAnswer
        return request
    }

    static func meaning(of response: HTTPAnswer.Response) -> ProviderAnswer {
        let error = (try? JSONParser.parse(response.body))?.object?["error"]?.object
        let details = error?["details"]?.array?.compactMap(\.object) ?? []
        let code = details.lazy.compactMap { $0["errorCode"]?.string }.first
        let reason = safeReason(code) ?? safeReason(error?["status"]?.string)
        if response.status == 404, code == "UNREGISTERED" { return ProviderAnswer(kind: .gone, reason: reason) }
        return ProviderAnswer(kind: kind(response.status, code: code), reason: reason)
    }

    /// All pushes share the access token, but any user can register a token that Google refuses: a token of another
    /// project gets 403 (`SENDER_ID_MISMATCH`), and a token of an iPhone or a browser gets 401 if the project's own key
    /// for that platform is wrong (`THIRD_PARTY_AUTH_ERROR`). A refusal of the access token itself is a 401 without an
    /// FCM error code.
    private static func kind(_ status: Int, code: String?) -> ProviderAnswer.Kind {
        switch status {
        case 401: code == nil ? .unauthorized : .refused
        case 403: .refused
        default: ProviderAnswer.kind(status)
        }
    }
}
