import Support
import Tokens

/// What shows a receiver who sends an event, and that it is no old request sent again by somebody else (Standard Webhooks).
package struct WebhookSignature: Equatable, Sendable {
    /// `webhook-id`.
    package let id: String
    /// `webhook-timestamp`: when this attempt was made, in seconds. Receivers hold it against their clocks.
    package let timestamp: Int64
    /// `webhook-signature`: `v1,` and an HMAC-SHA256 in base 64 for each secret, parted by spaces. A receiver that knows one of the
    /// secrets finds it right.
    package let signature: String

    /// Signs `{id}.{timestamp}.{body}` for an attempt at this time. Fails only if OpenSSL does.
    package init(
        id: String, body: [UInt8], secrets: [WebhookSecret], at attempt: WallTime
    ) throws(TokenError) {
        timestamp = attempt.seconds
        self.id = id
        let message = Array("\(id).\(timestamp).".utf8) + body
        var signatures: [String] = []
        for secret in secrets { signatures.append("v1," + Base64.encode(try secret.key.sign(message))) }
        signature = signatures.joined(separator: " ")
    }

    /// In the order of the specification.
    package var headers: [(name: String, value: String)] {
        [("webhook-id", id), ("webhook-timestamp", String(timestamp)), ("webhook-signature", signature)]
    }
}
