/// What docs/push.md uses of Apple's PushKit, for machines without it.
@_exported import Foundation
@_exported import FoundationNetworking

public struct PKPushType: Hashable, Sendable { public static let voIP = PKPushType() }

public final class PKPushCredentials: NSObject {
    public let token: Data
    public init(token: Data) { self.token = token }
}

public final class PKPushPayload: NSObject {
    public let dictionaryPayload: [AnyHashable: Any]
    public init(_ payload: [AnyHashable: Any]) { dictionaryPayload = payload }
}

public protocol PKPushRegistryDelegate: AnyObject {
    func pushRegistry(_ registry: PKPushRegistry, didUpdate credentials: PKPushCredentials, for type: PKPushType)
    func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType)
    func pushRegistry(
        _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload, for type: PKPushType,
        completion: @escaping () -> Void)
}

public final class PKPushRegistry: NSObject {
    /// The one that the app has made.
    nonisolated(unsafe) public static var made: PKPushRegistry!
    public weak var delegate: PKPushRegistryDelegate?
    public var desiredPushTypes: Set<PKPushType> = []
    public init(queue: DispatchQueue?) {
        super.init()
        Self.made = self
    }
}
