public import Foundation

// The protocols of Agora's CallAPI, as its sources declare them: CallAPI drops its own and imports these. Where there is no Objective-C,
// an empty default implementation makes a requirement optional.

#if canImport(ObjectiveC)

    /// Hears what peers send.
    @objc public protocol ISignalClientListener: NSObjectProtocol {
        /// A peer sent this with `sendMessage`.
        func onMessageReceive(message: String)

        /// For the app's log. `logLevel`: 0 for what is usual, 1 for a warning, 2 for an error.
        @objc optional func debugInfo(message: String, logLevel: Int)
    }

    /// A signalling channel of CallAPI (`CallConfig.signalClient`).
    @objc public protocol ISignalClient: NSObjectProtocol {
        /// Sends `message` to the user. `completion` is called once: with nil when a device of the user has it.
        func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?)

        /// Held weakly; one that is added twice hears once.
        func addListener(listener: any ISignalClientListener)

        func removeListener(listener: any ISignalClientListener)
    }

    /// Hears of the connection.
    @objc public protocol ICallRtmManagerListener: NSObjectProtocol {
        /// Messages can be sent and received.
        func onConnected()

        /// They cannot; the client goes on trying, unless the app logged out or another connection has this device id.
        func onDisconnected()

        /// The token ends within a minute, or has ended: `renewToken(_:)`. The channel is always the empty string.
        func onTokenPrivilegeWillExpire(channelName: String)
    }

#else

    /// Hears what peers send.
    public protocol ISignalClientListener: NSObjectProtocol {
        /// A peer sent this with `sendMessage`.
        func onMessageReceive(message: String)

        /// For the app's log. `logLevel`: 0 for what is usual, 1 for a warning, 2 for an error. Optional.
        func debugInfo(message: String, logLevel: Int)
    }

    extension ISignalClientListener {
        public func debugInfo(message: String, logLevel: Int) {}
    }

    /// A signalling channel of CallAPI (`CallConfig.signalClient`).
    public protocol ISignalClient: NSObjectProtocol {
        /// Sends `message` to the user. `completion` is called once: with nil when a device of the user has it.
        func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?)

        /// Held weakly; one that is added twice hears once.
        func addListener(listener: any ISignalClientListener)

        func removeListener(listener: any ISignalClientListener)
    }

    /// Hears of the connection.
    public protocol ICallRtmManagerListener: NSObjectProtocol {
        /// Messages can be sent and received.
        func onConnected()

        /// They cannot; the client goes on trying, unless the app logged out or another connection has this device id.
        func onDisconnected()

        /// The token ends within a minute, or has ended: `renewToken(_:)`. The channel is always the empty string.
        func onTokenPrivilegeWillExpire(channelName: String)
    }

#endif
