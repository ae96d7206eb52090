import Glibc
import MQTTClient
import SignalingProtocol
import Support
import Tokens

/// Explains why a broker has refused a client, as far as the client can tell: the broker itself says little more than
/// "Not authorized".
struct RefusalCause: Sendable {
    /// The client that the broker refused.
    enum Client: Sendable {
        case device(DeviceAddress)
        case coordinator(hasCertificate: Bool)
    }

    let client: Client

    /// Returns an addition to the error's message; nil for no addition. `token`: the token that the client sent as its
    /// password.
    func callAsFunction(_ error: MQTTError, _ token: String?) -> String? {
        switch (error.kind, error.isAboutCredentials) {
        case (.refused, true): credentials(token)
        // All topics that a client uses after CONNECT are under the topic root.
        case (.refused, false): "is --topic-root the one of this deployment?"
        case (.tls, _): tls
        // When a token ends, the broker ends the connection, and may give no reason.
        case (.lost, _): token.flatMap { try? Token(unverified: $0) }.flatMap(ended)
        default: nil
        }
    }

    private func ended(_ token: Token) -> String? {
        token.expiresAt <= SystemClock.wall.milliseconds ? "the token ended at \(utc(token.expiresAt))" : nil
    }

    private var tls: String? {
        switch client {
        case .device: "--broker-ca FILE names the authorities to trust"
        case .coordinator: "--broker-ca FILE names the authorities to trust, --broker-cert and --broker-key who this is"
        }
    }

    private func credentials(_ text: String?) -> String {
        guard let text, !text.isEmpty else { return withoutToken }
        let token: Token
        do throws(TokenError) {
            token = try Token(unverified: text)
        } catch {
            return "the given text is no token: \(error)"
        }
        return ended(token) ?? mismatch(token)
            ?? "the token of \(token.user) lasts until \(utc(token.expiresAt)): the broker may not know the key that made it, or "
            + "want another issuer or audience"
    }

    private var withoutToken: String {
        switch client {
        case .device: "the broker wants a token: --token-file, --token or BELLWIRE_TOKEN"
        case .coordinator(hasCertificate: false):
            "the broker wants a certificate or a token: --broker-cert with --broker-key, or --token-file"
        case .coordinator(hasCertificate: true): "the broker does not take this certificate for a coordinator's"
        }
    }

    private func mismatch(_ token: Token) -> String? {
        switch client {
        case .coordinator:
            token.role == .coordinator ? nil : "the token is of the role \(token.role.rawValue), not coordinator"
        case .device(let address):
            switch token.role {
            case .server: nil
            case .coordinator: "the token is a coordinator's, not a device's"
            case .admin: "the token is an administrator's, not a device's"
            case .device where token.user != address.userID:
                "the token is of the user \(token.user), not of \(address.userID)"
            case .device where token.device.map { $0 != address.deviceID } ?? false:
                "the token is for the device \(token.device?.string ?? ""), not for \(address.deviceID)"
            case .device: nil
            }
        }
    }

    /// Returns milliseconds since the epoch as `2026-01-31 23:59:59 UTC`.
    private func utc(_ milliseconds: Int64) -> String {
        var seconds = time_t(milliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 64)
        let count = strftime(&text, text.count, "%Y-%m-%d %H:%M:%S UTC", &parts)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
