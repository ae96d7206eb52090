internal import DropInSupport
internal import Foundation
internal import Basics

/// The listeners and the delegate of a client, called on the main queue.
final class Audience: Sendable {
    private struct State {
        var listeners: [WeakOnMain] = []
        var delegate = WeakOnMain(nil)
        var isConnected = false
        var messageTimeout = 10
    }

    /// The log level of ordinary messages, for `debugInfo`.
    static let info = 0
    static let warning = 1

    private let state = Mutex(State())

    var delegate: (any ICallRtmManagerListener)? {
        get { state.withLock(\.delegate).object as? any ICallRtmManagerListener }
        set {
            let held = WeakOnMain(newValue)
            state.withLock { $0.delegate = held }
        }
    }

    /// Whether there is a connection, as the delegate was told last.
    var isConnected: Bool { state.withLock(\.isConnected) }

    /// The time limit of a message in seconds, 1 to 600.
    var messageTimeout: Int {
        get { state.withLock(\.messageTimeout) }
        set { state.withLock { $0.messageTimeout = min(max(newValue, 1), 600) } }
    }

    func add(_ listener: any ISignalClientListener) {
        let held = WeakOnMain(listener)
        state.withLock { state in
            state.listeners.removeAll { $0.object == nil }
            if !state.listeners.contains(where: { $0.object === held.object }) { state.listeners.append(held) }
        }
    }

    func remove(_ listener: any ISignalClientListener) {
        let held = WeakOnMain(listener)
        state.withLock { $0.listeners.removeAll { $0.object == nil || $0.object === held.object } }
    }

    // MARK: Reports

    func received(_ message: String) {
        MainDelivery.deliver { [self] in
            for listener in listeners { listener.onMessageReceive(message: message) }
        }
    }

    func connected() {
        MainDelivery.deliver { [self] in
            guard stand(isConnected: true) else { return }
            log("connected", Self.info)
            delegate?.onConnected()
        }
    }

    func disconnected(_ reason: String) {
        MainDelivery.deliver { [self] in
            guard stand(isConnected: false) else { return }
            log("disconnected: \(reason)", Self.warning)
            delegate?.onDisconnected()
        }
    }

    func tokenWillExpire() {
        MainDelivery.deliver { [self] in delegate?.onTokenPrivilegeWillExpire(channelName: "") }
    }

    func complete(_ completion: OnMain<((NSError?) -> Void)?>, _ error: NSError?) {
        MainDelivery.deliver { [self] in
            if let error { log(error.localizedDescription, Self.warning) }
            completion.value?(error)
        }
    }

    /// Sets the state of the connection; returns false when the state has been reported already.
    private func stand(isConnected: Bool) -> Bool {
        state.withLock { state in
            guard state.isConnected != isConnected else { return false }
            state.isConnected = isConnected
            return true
        }
    }

    private func log(_ message: String, _ level: Int) {
        for listener in listeners {
            #if canImport(ObjectiveC)
                listener.debugInfo?(message: message, logLevel: level)
            #else
                listener.debugInfo(message: message, logLevel: level)
            #endif
        }
    }

    private var listeners: [any ISignalClientListener] {
        state.withLock(\.listeners).compactMap { $0.object as? any ISignalClientListener }
    }
}
