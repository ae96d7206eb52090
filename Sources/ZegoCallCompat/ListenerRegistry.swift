internal import DropInSupport
internal import Basics

/// The existing request managers, whose listeners get the notifications.
final class ListenerRegistry: Sendable {
    static let shared = ListenerRegistry()

    private let managers = Mutex<[WeakOnMain]>([])

    func add(_ manager: RequestManager) {
        let held = WeakOnMain(manager)
        managers.withLock { managers in
            managers.removeAll { $0.object == nil }
            managers.append(held)
        }
    }

    /// The listeners of all managers, each once; used on the main queue. An app without a manager yet listens to
    /// `ListenerManager.shared`.
    var listeners: [any ListenerUpdater] {
        let managers = managers.withLock(\.self).compactMap { $0.object as? RequestManager }
        guard !managers.isEmpty else { return [ListenerManager.shared] }
        var listeners: [any ListenerUpdater] = []
        for listener in managers.compactMap(\.listener) where !listeners.contains(where: { $0 === listener }) {
            listeners.append(listener)
        }
        return listeners
    }

    func tell(_ notification: ToldNotification) {
        MainDelivery.deliver { [self] in
            for listener in listeners {
                listener.receiveUpdate(notification.path, parameter: notification.parameter)
            }
        }
    }
}
