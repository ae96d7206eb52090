import Foundation
import Synchronization
import Testing

@testable import ZegoCallCompat

/// The listeners that are told.
struct ListenerRegistryTests {
    private final class Updater: ListenerUpdater {
        func receiveUpdate(_ path: String, parameter: [String: Any]) {}
    }

    @Test func aListenerIsHeldWeakly() {
        let (registry, manager) = (ListenerRegistry(), RequestManager())
        registry.add(manager)
        var updater: Updater? = Updater()
        manager.listener = updater
        #expect(registry.listeners.count == 1 && registry.listeners.first === updater)
        updater = nil
        #expect(manager.listener == nil && registry.listeners.isEmpty)
    }

    @Test func aManagerIsHeldWeakly() {
        let registry = ListenerRegistry()
        var manager: RequestManager? = RequestManager()
        let updater = Updater()
        manager?.listener = updater
        manager.map(registry.add)
        manager = nil
        #expect(registry.listeners.map(ObjectIdentifier.init) == [ObjectIdentifier(ListenerManager.shared)])
    }

    @Test func aListenerOfSeveralManagersHearsOnce() {
        let (registry, managers) = (ListenerRegistry(), [RequestManager(), RequestManager()])
        managers.forEach(registry.add)
        #expect(registry.listeners.count == 1)
    }
}
