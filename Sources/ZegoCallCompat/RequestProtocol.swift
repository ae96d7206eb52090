public import Foundation

/// Once for each request, on the main queue. Success is `.success(())`.
public typealias RequestCallback = (Result<Any, ZegoError>) -> Void

/// What a notification carries.
public typealias NotifyCallback = ([String: Any]) -> Void

/// Makes requests: what `CommandManager` has as its `service`.
public protocol RequestProtocol: AnyObject {
    /// - Parameters:
    ///   - path: one of the `API_…` paths.
    ///   - parameter: as document 003 has it for the path.
    ///   - callback: may be nil.
    func request(_ path: String, parameter: [String: AnyObject], callback: RequestCallback?)
}

/// Is told what the service notifies.
public protocol ListenerUpdater: AnyObject {
    /// - Parameters:
    ///   - path: one of the `Notify_…` paths.
    ///   - parameter: as document 003 has it for the path.
    func receiveUpdate(_ path: String, parameter: [String: Any])
}

/// Where an app says what it wants to be told.
public protocol Listener {
    /// The result names the listener for `removeListener`.
    @discardableResult
    func addListener(_ path: String, listener: @escaping NotifyCallback) -> UUID

    func removeListener(_ uuid: UUID, for path: String)
}
