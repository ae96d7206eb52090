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

        @objc optional func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String)
        @objc optional func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String)
        @objc optional func zim(_ zim: ZIM, callInvitationTimeout callID: String)
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

        // The names of ZIM up to 2.8.

        /// To who invited, right after `callUserStateChanged`, which says the same: a user has accepted the invitation.
        func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String)
        /// To who invited, right after `callUserStateChanged`: a user has rejected the invitation.
        func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String)
        /// To who invited, right after `callUserStateChanged`: these users have not answered in time.
        func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String)
        /// To the invitee, when there is no implementation of `callInvitationTimeout` with the call's mode.
        func zim(_ zim: ZIM, callInvitationTimeout callID: String)
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
        public func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {
            self.zim(zim, callInvitationTimeout: callID)
        }
        public func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String) {}
        public func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String) {}
        public func zim(_ zim: ZIM, callInvitationTimeout callID: String) {}
    }
#endif
