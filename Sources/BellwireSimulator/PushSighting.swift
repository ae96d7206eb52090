import CallCore
import Delivery
import HTTPSending
import SignalingProtocol

/// A push as its provider receives it, with its decoded content.
struct PushSighting {
    /// The identity of a push to a registration, however often the push is sent.
    struct ID: Hashable {
        let callID: CallID
        let invitation: Int
        let key: PushRegistration.Key
        let kind: PushKind
        /// The target of a ring; nil for other kinds. Each target that registers while the device is being rung is sent
        /// a ring of its own.
        let target: String?

        init(callID: CallID, invitation: Int, key: PushRegistration.Key, kind: PushKind, target: String) {
            self.callID = callID
            self.invitation = invitation
            self.key = key
            self.kind = kind
            self.target = kind == .ring ? target : nil
        }
    }

    let id: ID
    let token: String
    /// The key of the ring check.
    let ringKey: String
    /// The `apns-id` of a push by APNs.
    let providersID: String?
    /// Whether the provider's system itself shows the push as a notification.
    let hasNotification: Bool

    var device: DeviceAddress { id.key.device }

    /// Returns nil when no device could use the push. `secret`: the secret of ring checks.
    init?(_ request: HTTPRequest, secret: [UInt8]) {
        let parts = request.url.split(separator: "/", omittingEmptySubsequences: true)
        guard let last = parts.last.map(String.init) else { return nil }
        func header(_ name: String) -> String? { request.headers.first { $0.name == name }?.value }
        let platform: PushPlatform
        let content: JSONObject?
        var token = last
        var hasNotification = false
        if request.url.hasPrefix("https://apns.example/3/device/") {
            platform = header("apns-push-type") == "voip" ? .apnsVoIP : .apns
            content = Self.json(request.body)?["bellwire"]?.object
        } else if request.url.hasPrefix("https://fcm.example/") {
            platform = .fcm
            guard let message = Self.json(request.body)?["message"]?.object, let own = message["token"]?.string else {
                return nil
            }
            token = own
            hasNotification = message["notification"] != nil
            content = Self.json(Array((message["data"]?.object?["bellwire"]?.string ?? "").utf8))
        } else {
            platform = .webPush
            content = SimulatedPushService.opened(request.body).flatMap(Self.json)
        }
        guard let content, let kind = content["kind"]?.string.flatMap(PushKind.init),
            let callID = content["callID"]?.string.flatMap({ CallID($0) }),
            let check = content["check"]?.string.flatMap(Self.query), let user = check["user"].flatMap({ UserID($0) }),
            let device = check["device"].flatMap({ DeviceID($0) }), let ringKey = check["key"],
            let invitation = RingKey.invitation(of: ringKey, secret: secret, callID: callID, user: user, device: device)
        else { return nil }
        id = ID(
            callID: callID, invitation: invitation,
            key: PushRegistration.Key(DeviceAddress(userID: user, deviceID: device), .standard, platform), kind: kind,
            target: SimulatedPushService.mark(platform, token))
        self.token = token
        self.ringKey = ringKey
        providersID = header("apns-id")
        self.hasNotification = hasNotification
    }

    private static func json(_ bytes: [UInt8]) -> JSONObject? { (try? JSONParser.parse(bytes))?.object }

    private static func query(_ url: String) -> [String: String]? {
        guard let query = url.split(separator: "?").dropFirst().first else { return nil }
        let pairs = query.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        return Dictionary(pairs.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { $1 }
    }
}
