internal import DropInSupport
public import Foundation
internal import Basics

/// Passes notifications to the listeners of their paths.
///
/// No lock is held while a listener is called: a listener may add and remove listeners, and make requests.
public final class ListenerManager: Listener, ListenerUpdater, Sendable {
    private struct Entry: Sendable {
        let uuid: UUID
        let listener: OnMain<NotifyCallback>
    }

    public static let shared = ListenerManager()

    private let listeners = Mutex<[String: [Entry]]>([:])

    init() {}

    @discardableResult
    public func addListener(_ path: String, listener: @escaping NotifyCallback) -> UUID {
        let entry = Entry(uuid: UUID(), listener: OnMain(listener))
        listeners.withLock { $0[path, default: []].append(entry) }
        return entry.uuid
    }

    public func removeListener(_ uuid: UUID, for path: String) {
        listeners.withLock { listeners in
            listeners[path]?.removeAll { $0.uuid == uuid }
            if listeners[path]?.isEmpty == true { listeners[path] = nil }
        }
    }

    /// Calls the listeners of `path`, the oldest first.
    public func receiveUpdate(_ path: String, parameter: [String: Any]) {
        for entry in listeners.withLock({ $0[path] }) ?? [] { entry.listener.value(parameter) }
    }
}
