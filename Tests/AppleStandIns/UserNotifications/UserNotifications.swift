/// The part of Apple's UserNotifications that docs/push.md uses.
@_exported import Foundation

public enum UNNotificationInterruptionLevel { case active, timeSensitive }

open class UNNotificationContent {
    public var userInfo: [AnyHashable: Any] = [:]
    public init() {}
    public func mutableCopy() -> Any { self }
}

public final class UNMutableNotificationContent: UNNotificationContent {
    public var threadIdentifier = ""
    public var interruptionLevel = UNNotificationInterruptionLevel.active
}

public final class UNNotificationRequest {
    public let content: UNNotificationContent
    public init(content: UNNotificationContent) { self.content = content }
}

open class UNNotificationServiceExtension {
    public init() {}
    open func didReceive(
        _ request: UNNotificationRequest, withContentHandler handler: @escaping (UNNotificationContent) -> Void
    ) {}
    open func serviceExtensionTimeWillExpire() {}
}
