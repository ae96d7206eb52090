internal import Basics
internal import DropInSupport
public import Foundation
internal import SignalingProtocol

/// The vendor's `ZPNs`: the push tokens of this installation, which the present login registers with the deployment and
/// a logout ends (docs/protocol.md, section 7). Tokens may be set before or after the login.
///
/// The service's pushes are those of docs/push.md: a `voip` push has `bellwire` in its payload.
public final class ZPNs: NSObject, Sendable {
    private static let instance = ZPNs()
    let tokens = PushTokens()

    override private init() {}

    #if canImport(ObjectiveC)
        @objc(shared)
    #endif
    public static func shared() -> ZPNs { instance }

    /// Does nothing: the app asks iOS for its tokens (`UIApplication.registerForRemoteNotifications()`,
    /// `PKPushRegistry`).
    #if canImport(ObjectiveC)
        @objc(registerAPNs)
    #endif
    public func registerAPNs() {}

    /// Sets the token for notifications, `apns`, of this installation. `isProduct` is false for builds from Xcode,
    /// whose tokens are those of Apple's sandbox.
    #if canImport(ObjectiveC)
        @objc(setDeviceToken:isProduct:)
    #endif
    public func setDeviceToken(_ deviceToken: Data, isProduct: Bool) { set(.apns, deviceToken, isProduct) }

    /// Sets the token of PushKit, `apnsVoIP`, of this installation.
    #if canImport(ObjectiveC)
        @objc(setVoipToken:isProduct:)
    #endif
    public func setVoipToken(_ voipToken: Data, isProduct: Bool) { set(.apnsVoIP, voipToken, isProduct) }

    private func set(_ platform: PushPlatform, _ token: Data, _ isProduct: Bool) {
        tokens.set(platform, token, isProduct: isProduct)
        ZIM.shared()?.registerPushes()
    }
}
