/// The part of Apple's UIKit that docs/push.md uses.
@_exported import Foundation

@MainActor open class UIResponder { public init() {} }
@MainActor open class UIApplication {
    open class var shared: UIApplication { UIApplication() }
    open func registerForRemoteNotifications() {}
    open func unregisterForRemoteNotifications() {}
}
@MainActor public protocol UIApplicationDelegate: AnyObject {
    func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken token: Data)
}
