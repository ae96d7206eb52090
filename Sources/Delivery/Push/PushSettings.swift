import CallCore
import SignalingProtocol

/// The file of `--push` (docs/push.md, Settings), with the keys from the key files.
package struct PushSettings: Sendable {
    package static let maxApps = 64
    /// The bound of `publicURL` in bytes; each push contains this URL.
    package static let longestPublicURL = 512
    /// Seconds.
    package static let afterRange = 0...60

    /// The URL of a gateway for devices outside, without a slash at its end; nil when pushes have no `check`.
    package let publicURL: String?
    /// How long an online device has for its ack before a push, in milliseconds.
    package let after: Milliseconds
    /// The PEM file of the certificate authorities for providers; nil for the authorities that the system trusts.
    package let certificateAuthorityFile: String?
    package let apps: [AppName: PushApp]

    package init(
        publicURL: String?, after: Milliseconds = 1_000, certificateAuthorityFile: String? = nil,
        apps: [AppName: PushApp]
    ) {
        self.publicURL = publicURL
        self.after = after
        self.certificateAuthorityFile = certificateAuthorityFile
        self.apps = apps
    }

    package var policy: PushPolicy { PushPolicy(after: after, apps: apps.mapValues(\.platforms)) }

    /// The URL for a woken device's ring check; nil without `publicURL`.
    /// - Parameter key: `RingKey.text`.
    package func check(_ callID: CallID, _ device: DeviceAddress, key: String) -> String? {
        publicURL.map { url in
            "\(url)/v1/ring/\(callID)?user=\(percentEncoded(device.userID.string))"
                + "&device=\(percentEncoded(device.deviceID.string))&key=\(key)"
        }
    }
}

/// An app of the deployment, with the providers for its devices.
package struct PushApp: Sendable {
    /// The settings for the platforms `apns` and `apnsVoIP`.
    package let apns: APNsSettings?
    package let fcm: FCMSettings?
    package let webPush: WebPushSettings?
    package let texts: PushTexts
    /// Members that the app's call plugin reads.
    package let shape: PushShape

    package init(
        apns: APNsSettings? = nil, fcm: FCMSettings? = nil, webPush: WebPushSettings? = nil,
        texts: PushTexts = PushTexts(), shape: PushShape = PushShape()
    ) {
        self.apns = apns
        self.fcm = fcm
        self.webPush = webPush
        self.texts = texts
        self.shape = shape
    }

    package var platforms: Set<PushPlatform> {
        var platforms: Set<PushPlatform> = []
        if apns != nil { platforms.formUnion([.apns, .apnsVoIP]) }
        if fcm != nil { platforms.insert(.fcm) }
        if webPush != nil { platforms.insert(.webPush) }
        return platforms
    }
}
