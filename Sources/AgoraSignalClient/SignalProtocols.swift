public import Foundation

// The protocols of Agora's CallAPI, as its sources declare them: CallAPI drops its own protocols and imports the
// protocols of this file. Without Objective-C a protocol has no optional requirements: an empty default implementation
// takes their place.

#if canImport(ObjectiveC)

    /// A listener for the messages of peers.
    @objc public protocol ISignalClientListener: NSObjectProtocol {
        /// A peer sent this message with `sendMessage`.
        func onMessageReceive(message: String)

        /// A line for the app's log. `logLevel`: 0 for an ordinary line, 1 for a warning, 2 for an error.
        @objc optional func debugInfo(message: String, logLevel: Int)
    }

    /// A signalling channel of CallAPI (`CallConfig.signalClient`).
    @objc public protocol ISignalClient: NSObjectProtocol {
        /// Sends `message` to the user. `completion` is called once: with nil when a device of the user has
        /// acknowledged the message.
        func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?)

        /// Adds a listener, held weakly; a listener that is added twice is called once.
        func addListener(listener: any ISignalClientListener)

        func removeListener(listener: any ISignalClientListener)
    }

    /// A listener for the state of the connection.
    @objc public protocol ICallRtmManagerListener: NSObjectProtocol {
        /// Called when messages can be sent and received.
        func onConnected()

        /// Called when messages can no longer be sent or received. The client tries to connect again, unless the app
        /// logged out or another connection has this device id.
        func onDisconnected()

        /// The token ends within a minute, or has ended: call `renewToken(_:)`. `channelName` is always empty.
        func onTokenPrivilegeWillExpire(channelName: String)
    }

#else

    /// A listener for the messages of peers.
    public protocol ISignalClientListener: NSObjectProtocol {
        /// A peer sent this message with `sendMessage`.
        func onMessageReceive(message: String)

        /// A line for the app's log. `logLevel`: 0 for an ordinary line, 1 for a warning, 2 for an error. Optional.
        func debugInfo(message: String, logLevel: Int)
    }

    extension ISignalClientListener {
        public func debugInfo(message: String, logLevel: Int) {}
    }

    /// A signalling channel of CallAPI (`CallConfig.signalClient`).
    public protocol ISignalClient: NSObjectProtocol {
        /// Sends `message` to the user. `completion` is called once: with nil when a device of the user has
        /// acknowledged the message.
        func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?)

        /// Adds a listener, held weakly; a listener that is added twice is called once.
        func addListener(listener: any ISignalClientListener)

        func removeListener(listener: any ISignalClientListener)
    }

    /// A listener for the state of the connection.
    public protocol ICallRtmManagerListener: NSObjectProtocol {
        /// Called when messages can be sent and received.
        func onConnected()

        /// Called when messages can no longer be sent or received. The client tries to connect again, unless the app
        /// logged out or another connection has this device id.
        func onDisconnected()

        /// The token ends within a minute, or has ended: call `renewToken(_:)`. `channelName` is always empty.
        func onTokenPrivilegeWillExpire(channelName: String)
    }

#endif
