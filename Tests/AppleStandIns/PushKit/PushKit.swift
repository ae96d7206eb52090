@_exported import Dispatch
@_exported import Foundation

#if canImport(FoundationNetworking)
    @_exported import FoundationNetworking
#endif

// A stand-in for the part of Apple's PushKit that BellwireCallKit uses.

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
    /// The registry that was made last, for tests.
    nonisolated(unsafe) public static weak var made: PKPushRegistry?
    public weak var delegate: (any PKPushRegistryDelegate)?
    public var desiredPushTypes: Set<PKPushType>? = []

    public init(queue: DispatchQueue?) {
        super.init()
        Self.made = self
    }
}
