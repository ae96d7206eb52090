/// Requests about pushes (docs/protocol.md, section 7).
extension Request {
    /// `push.register`: registers the token or subscription of this device for pushes.
    package struct PushRegister: Equatable, Sendable {
        package var platform: PushPlatform
        package var app: AppName
        package var target: PushTarget

        package init(platform: PushPlatform, app: AppName = .standard, target: PushTarget) {
            self.platform = platform
            self.app = app
            self.target = target
        }
    }

    /// `push.unregister`: nil stands for all platforms or for all apps of this device.
    package struct PushUnregister: Equatable, Sendable {
        package var platform: PushPlatform?
        package var app: AppName?

        package init(platform: PushPlatform? = nil, app: AppName? = nil) {
            self.platform = platform
            self.app = app
        }
    }

    /// `call.ringCheck`: the request that a gateway sends for a woken device that is not connected.
    package struct RingCheck: Equatable, Sendable {
        package var callID: CallID
        package var device: DeviceID
        /// The revision of the invitation.
        package var invitation: Int
        /// Whether the device declines this invitation.
        package var isRejected: Bool

        package init(callID: CallID, device: DeviceID, invitation: Int, isRejected: Bool = false) {
            self.callID = callID
            self.device = device
            self.invitation = invitation
            self.isRejected = isRejected
        }
    }
}

extension Request.PushRegister {
    func write(to writer: inout JSONWriter) {
        writer.field("platform", platform.rawValue)
        if app != .standard { writer.field("app", app.string) }
        switch target {
        case .token(let token): writer.field("token", token)
        case .subscription(let endpoint, let p256dh, let auth):
            writer.object("subscription") { writer in
                writer.field("endpoint", endpoint)
                writer.object("keys") { writer in
                    writer.field("p256dh", p256dh)
                    writer.field("auth", auth)
                }
            }
        }
    }

    init(_ fields: FieldReader) throws(FieldError) {
        let platform = try fields.required("platform", fields.choice("platform", PushPlatform.self))
        let app = try fields.identifier("app", AppName.self) ?? .standard
        let target: PushTarget
        if platform == .webPush {
            guard fields.isAbsent("token") else { throw .bad("token", "is not allowed for webPush: use subscription") }
            target = try PushTarget(subscription: fields.required("subscription", fields.object("subscription")))
        } else {
            guard fields.isAbsent("subscription") else { throw .bad("subscription", "is only for webPush") }
            let token = try fields.required("token", fields.text("token", maxBytes: Limits.pushTokenBytes))
            guard platform.takes(token) else { throw .bad("token", "is not a token of \(platform.rawValue)") }
            target = .token(token)
        }
        self.init(platform: platform, app: app, target: target)
    }
}

extension PushPlatform {
    /// Whether `token` may be a token of this platform. APNs tokens stand in URL paths, so only the id alphabet is
    /// allowed. FCM tokens stand in JSON, and the form of these tokens is unknown.
    fileprivate func takes(_ token: String) -> Bool {
        guard !token.isEmpty else { return false }
        switch self {
        case .apns, .apnsVoIP:
            return token.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
        case .fcm: return token.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        case .webPush: return false
        }
    }
}

extension PushTarget {
    private static let publicKeyBytes = 65
    private static let secretBytes = 16

    /// Reads the result of a browser's `PushSubscription.toJSON()`.
    fileprivate init(subscription fields: FieldReader) throws(FieldError) {
        let endpoint: String?
        do throws(FieldError) {
            endpoint = try fields.text("endpoint", maxBytes: Limits.pushTokenBytes)
        } catch {
            throw error.within("subscription")
        }
        guard let endpoint, isEndpoint(endpoint) else {
            throw .bad("subscription.endpoint", "must be an https URL without a user")
        }
        let keys: FieldReader?
        do throws(FieldError) {
            keys = try fields.object("keys")
        } catch {
            throw error.within("subscription")
        }
        // RFC 8291, section 3.1: the key is an uncompressed point of P-256.
        guard let p256dh = try keys?.key("p256dh"), let point = base64URL(p256dh), point.count == Self.publicKeyBytes,
            point[0] == 4
        else {
            throw .bad(
                "subscription.keys.p256dh",
                "must be an uncompressed point, \(Self.publicKeyBytes) bytes that begin with 4, in base64url")
        }
        guard let auth = try keys?.key("auth"), base64URL(auth)?.count == Self.secretBytes else {
            throw .bad("subscription.keys.auth", "must be \(Self.secretBytes) bytes in base64url")
        }
        self = .subscription(endpoint: endpoint, p256dh: p256dh, auth: auth)
    }
}

extension FieldReader {
    /// Reads a key of a subscription and removes its padding.
    fileprivate func key(_ name: String) throws(FieldError) -> String? {
        do throws(FieldError) {
            return try text(name, maxBytes: 128).map { text in
                let padding = text.utf8.reversed().prefix { $0 == UInt8(ascii: "=") }.count
                return padding <= 2 ? String(text.dropLast(padding)) : text
            }
        } catch {
            throw error.within("subscription.keys")
        }
    }
}

/// Whether `text` may be the URL of a push service. The process that connects to the endpoint checks the address.
private func isEndpoint(_ text: String) -> Bool {
    let scheme = "https://"
    guard text.utf8.count <= Limits.pushTokenBytes, text.prefix(scheme.count).lowercased() == scheme,
        text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !"\"<>\\^`{|}#".utf8.contains($0) })
    else { return false }
    let authority = text.utf8.dropFirst(scheme.count).prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
    guard !authority.contains(UInt8(ascii: "@")) else { return false }
    // An IPv6 address stands in brackets; the colon of the port follows the brackets.
    let name: Substring.UTF8View
    let rest: Substring.UTF8View
    if authority.first == UInt8(ascii: "[") {
        guard let end = authority.firstIndex(of: UInt8(ascii: "]")) else { return false }
        name = authority[authority.index(after: authority.startIndex)..<end]
        rest = authority[authority.index(after: end)...]
    } else {
        name = authority.prefix { $0 != UInt8(ascii: ":") }
        rest = authority[name.endIndex...]
    }
    // The name has no percent-encoding and no zone of an address. Two programs could read such a name differently, and
    // so a name could pass the check of the address and lead elsewhere.
    guard !name.isEmpty, !name.contains(UInt8(ascii: "%")) else { return false }
    guard rest.first == UInt8(ascii: ":") else { return rest.isEmpty }
    let port = rest.dropFirst()
    return (1...5).contains(port.count) && port.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        && (1...65_535).contains(Int(String(port) ?? "") ?? 0)
}

/// Returns the bytes of a text in base64url without padding (RFC 4648, section 5); nil when `text` is not base64url.
private func base64URL(_ text: String) -> [UInt8]? {
    guard text.utf8.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    var bits: UInt32 = 0
    var count: UInt32 = 0
    for character in text.utf8 {
        let value: UInt8
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): value = 62
        case UInt8(ascii: "_"): value = 63
        default: return nil
        }
        bits = bits << 6 | UInt32(value)
        count += 6
        if count >= 8 {
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> count))
        }
    }
    // The unused bits must be zero, so that each value has a single spelling.
    return bits & (1 << count - 1) == 0 ? bytes : nil
}

// MARK: Answers

extension RegisteredPush {
    func write(to writer: inout JSONWriter) {
        writer.field("platform", platform.rawValue)
        writer.field("app", app.string)
        writer.field("since", since)
    }

    /// Nil for a platform that this version does not know.
    init?(json: JSONObject) {
        guard let platform = json["platform"]?.string.flatMap(PushPlatform.init),
            let app = json["app"]?.string.flatMap(AppName.init), let since = json["since"]?.integer
        else { return nil }
        self.init(platform: platform, app: app, since: since)
    }
}

extension RingState {
    func write(to writer: inout JSONWriter) {
        switch self {
        case .ringing(let expiresIn, let call):
            writer.field("ringing", true)
            writer.field("expiresIn", expiresIn)
            writer.object("call") { call.write(to: &$0) }
        case .over(let reason):
            writer.field("ringing", false)
            writer.field("reason", reason.rawValue)
        }
    }

    init?(json: JSONObject) {
        guard let isRinging = json["ringing"]?.bool else { return nil }
        if isRinging {
            guard let expiresIn = json["expiresIn"]?.integer,
                let call = json["call"]?.object.flatMap(CallSnapshot.init(json:))
            else { return nil }
            self = .ringing(expiresIn: Int(expiresIn), call)
        } else {
            guard let reason = json["reason"]?.string.flatMap(Reason.init) else { return nil }
            self = .over(reason)
        }
    }
}
