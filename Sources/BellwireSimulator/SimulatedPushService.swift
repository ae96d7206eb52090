import CallCore
import Delivery
import SignalingProtocol
import Tokens

/// The push settings and keys of simulated deployments, made once, since no decision depends on them.
enum SimulatedPushService {
    static let gateway = "https://ring.example"
    private static let key = try! CryptographicKey.generate(.es256)
    /// The key of all browsers.
    private static let browserKey = try! CryptographicKey.generate(.es256)
    private static let browserSecret = [UInt8](repeating: 7, count: 16)
    static let settings = PushSettings(
        publicURL: gateway,
        apps: [
            .standard: PushApp(
                apns: APNsSettings(
                    key: key, keyID: "K", teamID: "T", bundleID: "com.example",
                    endpoint: try! ProviderEndpoint("https://apns.example")),
                fcm: FCMSettings(
                    account: ServiceAccount(
                        email: "a@example", project: "p", tokenURL: try! HTTPSURL("https://oauth.example/token"),
                        keyID: nil, key: key), endpoint: try! ProviderEndpoint("https://fcm.example")),
                webPush: WebPushSettings(key: key, subject: "mailto:a@example.com"))
        ])

    static func target(_ platform: PushPlatform, _ token: String) -> PushTarget {
        guard platform == .webPush else { return .token(token) }
        return .subscription(
            endpoint: "https://push-\(token.utf8.reduce(0) { ($0 + Int($1)) % 7 }).example/\(token)",
            p256dh: Base64URL.encode(browserKey.publicPoint!), auth: Base64URL.encode(browserSecret))
    }

    /// Returns `PushRegistration.mark` of this target.
    static func mark(_ platform: PushPlatform, _ token: String) -> String {
        let identity = target(platform, token).identity
        return String(Base64URL.encode(Digest.sha256(Array(identity.utf8))).prefix(PushRegistration.markLength))
    }

    static func opened(_ body: [UInt8]) -> [UInt8]? {
        WebPushReceiver.opened(body, by: browserKey, secret: browserSecret)
    }
}
