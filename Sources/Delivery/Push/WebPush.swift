import CallCore
import HTTPSending
import SignalingProtocol
import Tokens

/// The requests to Web Push services (services of browsers, and UnifiedPush; RFC 8030), and the meaning of their
/// responses.
enum WebPush {
    /// A valid Web Push subscription of a registration.
    struct Subscription {
        let endpoint: HTTPSURL
        /// A point of P-256.
        let key: [UInt8]
        let secret: [UInt8]

        /// Returns nil when the registration holds no valid subscription.
        init?(_ target: PushTarget) {
            guard case .subscription(let endpoint, let p256dh, let auth) = target,
                let url = try? HTTPSURL(endpoint, maxBytes: HTTPRequest.longestURL),
                let key = Base64URL.decode(Self.unpadded(p256dh)), key.count == WebPushEncryption.keyBytes,
                let secret = Base64URL.decode(Self.unpadded(auth)), secret.count == WebPushEncryption.secretBytes
            else { return nil }
            self.endpoint = url
            self.key = key
            self.secret = secret
        }

        private static func unpadded(_ text: String) -> [UInt8] {
            var bytes = Array(text.utf8)
            while bytes.last == UInt8(ascii: "=") { bytes.removeLast() }
            return bytes
        }

        /// The claim `aud` of the token (RFC 6454, section 6.1).
        var origin: String {
            let host = endpoint.host.lowercased()
            let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
            return "https://\(name)\(endpoint.port == 443 ? "" : ":\(endpoint.port)")"
        }
    }

    static func request(
        _ push: OutgoingPush, to subscription: Subscription, _ settings: WebPushSettings, token: String, id: UInt64,
        now: Milliseconds
    ) throws(TokenError) -> HTTPRequest {
        guard let key = settings.key.publicPoint else { throw TokenError(.keys, "not a key of P-256") }
        var headers = [
            (name: "ttl", value: String(push.life(at: now) / 1_000)),
            (name: "urgency", value: "high"),
            (name: "content-encoding", value: "aes128gcm"),
            (name: "content-type", value: "application/octet-stream"),
            (name: "authorization", value: "vapid t=\(token), k=\(Base64URL.encode(key))"),
        ]
        if let callID = push.content.callID { headers.append(("topic", topic(callID))) }
        let content = push.content.trimmed(to: WebPushEncryption.mostBytes) { $0.json.count }
        return HTTPRequest(
            id: id, url: subscription.endpoint.text, headers: headers,
            body: try WebPushEncryption.encrypt(content.json, to: subscription.key, secret: subscription.secret),
            allowed: settings.rules)
    }

    /// Returns the topic of a call: at most 32 characters of the base64url alphabet (RFC 8030, section 5.4). The push
    /// service keeps only the last undelivered push of a topic.
    static func topic(_ callID: CallID) -> String {
        Base64URL.encode(sha256(Array("bellwire \(callID)".utf8)).prefix(24))
    }

    static func meaning(of response: HTTPAnswer.Response) -> ProviderAnswer {
        switch response.status {
        case 404, 410: ProviderAnswer(kind: .gone)
        default: ProviderAnswer(kind: ProviderAnswer.kind(response.status))
        }
    }
}
