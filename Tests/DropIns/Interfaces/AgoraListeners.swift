import AgoraSignalClient
import Foundation

// The protocols are for subclasses of NSObject, which belongs to Foundation.

/// `debugInfo` is optional.
final class QuietListener: NSObject, ISignalClientListener {
    func onMessageReceive(message: String) {}
}

final class Hearing: NSObject, ISignalClientListener {
    func onMessageReceive(message: String) {}
    func debugInfo(message: String, logLevel: Int) {}
}

final class Watcher: NSObject, ICallRtmManagerListener {
    func onConnected() {}
    func onDisconnected() {}
    func onTokenPrivilegeWillExpire(channelName: String) {}
}

final class OtherChannel: NSObject, ISignalClient {
    func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?) {}
    func addListener(listener: any ISignalClientListener) {}
    func removeListener(listener: any ISignalClientListener) {}
}
