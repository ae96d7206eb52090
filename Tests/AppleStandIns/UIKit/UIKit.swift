/// What docs/push.md uses of Apple's UIKit.
@_exported import Foundation

@MainActor open class UIResponder { public init() {} }
@MainActor open class UIApplication {}
@MainActor public protocol UIApplicationDelegate: AnyObject {
    func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken token: Data)
}
