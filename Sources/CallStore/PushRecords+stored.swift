import CallCore
import SignalingProtocol

/// Data of pushes as text, in the same form in every store.
extension PushPolicy {
    /// The text of a policy: the delay in milliseconds before a device gets a push, and each app with its platforms, as
    /// in "1000 default:apns,fcm other:webPush".
    package var text: String {
        let apps = apps.sorted { $0.key < $1.key }.map { app, platforms in
            "\(app):\(platforms.sorted().map(\.rawValue).joined(separator: ","))"
        }
        return ([String(after)] + apps).joined(separator: " ")
    }

    /// Returns nil when `text` is no policy. Unknown platforms are skipped.
    package init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard let after = Milliseconds(parts[0]), StoredNumber.times.contains(after) else { return nil }
        self.init(after: after)
        for part in parts.dropFirst() {
            let words = part.split(separator: ":", omittingEmptySubsequences: false)
            guard words.count == 2, let app = AppName(String(words[0])) else { return nil }
            apps[app] = Set(words[1].split(separator: ",").compactMap { PushPlatform(rawValue: String($0)) })
        }
    }
}

extension PushTarget {
    /// The text of a target: "t" and the token; or "s", both keys, which hold no space, and the endpoint.
    package var text: String {
        switch self {
        case .token(let token): "t\(token)"
        case .subscription(let endpoint, let p256dh, let auth): "s\(p256dh) \(auth) \(endpoint)"
        }
    }

    package init?(_ text: String) {
        let rest = String(decoding: text.utf8.dropFirst(), as: UTF8.self)
        switch text.utf8.first {
        case UInt8(ascii: "t"): self = .token(rest)
        case UInt8(ascii: "s"):
            let parts = rest.utf8.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
                .compactMap { String($0) }
            guard parts.count == 3 else { return nil }
            self = .subscription(endpoint: parts[2], p256dh: parts[0], auth: parts[1])
        default: return nil
        }
    }
}
