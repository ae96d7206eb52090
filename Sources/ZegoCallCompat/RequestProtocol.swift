public import Foundation

/// The callback of a request: called once, on the main queue. Success is `.success(())`.
public typealias RequestCallback = (Result<Any, ZegoError>) -> Void

/// The callback of a notification, with the notification's parameters.
public typealias NotifyCallback = ([String: Any]) -> Void

/// A maker of requests, the type of `CommandManager`'s `service`.
public protocol RequestProtocol: AnyObject {
    /// Makes a request.
    ///
    /// - Parameters:
    ///   - path: one of the `API_…` paths.
    ///   - parameter: the parameters that document 003 has for the path.
    ///   - callback: the callback of the request; may be nil.
    func request(_ path: String, parameter: [String: AnyObject], callback: RequestCallback?)
}

/// A receiver of the service's notifications.
public protocol ListenerUpdater: AnyObject {
    /// Receives a notification.
    ///
    /// - Parameters:
    ///   - path: one of the `Notify_…` paths.
    ///   - parameter: the parameters that document 003 has for the path.
    func receiveUpdate(_ path: String, parameter: [String: Any])
}

/// A register of the notifications that an app wants.
public protocol Listener {
    /// Adds a listener for a path. The result identifies the listener for `removeListener`.
    @discardableResult
    func addListener(_ path: String, listener: @escaping NotifyCallback) -> UUID

    func removeListener(_ uuid: UUID, for path: String)
}
