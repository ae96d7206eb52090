import Support
import Tokens

/// The proof for a receiver that this service sent an event, and that the request is no copy of an old request
/// (Standard Webhooks).
package struct WebhookSignature: Equatable, Sendable {
    /// The header `webhook-id`.
    package let id: String
    /// The header `webhook-timestamp`: the time of this attempt, in seconds. Receivers compare this time with their
    /// clocks.
    package let timestamp: Int64
    /// The header `webhook-signature`: for each secret `v1,` and an HMAC-SHA256 in base 64, separated by spaces. A
    /// receiver with any of these secrets accepts the signature.
    package let signature: String

    /// Signs `{id}.{timestamp}.{body}` for an attempt at this time. Throws only if OpenSSL fails.
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

    /// The headers in the order of the specification.
    package var headers: [(name: String, value: String)] {
        [("webhook-id", id), ("webhook-timestamp", String(timestamp)), ("webhook-signature", signature)]
    }
}
