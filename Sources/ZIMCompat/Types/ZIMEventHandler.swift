#if canImport(ObjectiveC)
    public import Foundation

    /// What an app is told, on the main queue. All methods are optional.
    @objc public protocol ZIMEventHandler: NSObjectProtocol {
        @objc optional func zim(
            _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
            extendedData: [AnyHashable: Any])
        @objc optional func zim(_ zim: ZIM, errorInfo: ZIMError)
        @objc optional func zim(_ zim: ZIM, tokenWillExpire second: UInt32)
        @objc optional func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo)
        @objc optional func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String)
        @objc optional func zim(
            _ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String)
    }
#else
    /// What an app is told, on the main queue. All methods have empty implementations.
    public protocol ZIMEventHandler: AnyObject {
        /// `extendedData` is empty.
        func zim(
            _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
            extendedData: [AnyHashable: Any])
        /// The service or the broker refuses this device, for a reason that no call of the app has asked for.
        func zim(_ zim: ZIM, errorInfo: ZIMError)
        /// `ZIM.renewToken` goes on with another one. Not told where a `tokenProvider` gives tokens.
        func zim(_ zim: ZIM, tokenWillExpire second: UInt32)
        /// This user's own profile, after this device has changed it.
        func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo)
        func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String)
        func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String)
    }

    extension ZIMEventHandler {
        public func zim(
            _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
            extendedData: [AnyHashable: Any]
        ) {}
        public func zim(_ zim: ZIM, errorInfo: ZIMError) {}
        public func zim(_ zim: ZIM, tokenWillExpire second: UInt32) {}
        public func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo) {}
        public func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {}
    }
#endif
