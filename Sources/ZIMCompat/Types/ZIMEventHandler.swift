#if canImport(ObjectiveC)
    public import Foundation

    /// The events for an app, on the main queue. All methods are optional.
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
    /// The events for an app, on the main queue. All methods have empty implementations.
    public protocol ZIMEventHandler: AnyObject {
        /// The connection has another state. `extendedData` is empty.
        func zim(
            _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
            extendedData: [AnyHashable: Any])
        /// The service or the broker refuses this device outside of the app's requests.
        func zim(_ zim: ZIM, errorInfo: ZIMError)
        /// The token ends in `second` seconds; `ZIM.renewToken` goes on with another token. Not called where there is a
        /// `tokenProvider`.
        func zim(_ zim: ZIM, tokenWillExpire second: UInt32)
        /// This user's profile has changed, by this device.
        func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo)
        func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String)
        func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String)
        func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String)

        // The names of ZIM up to 2.8.

        /// An invitee has accepted the invitation. Called for the inviting user, right after `callUserStateChanged`
        /// with the same news.
        func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String)
        /// An invitee has rejected the invitation. Called for the inviting user, right after `callUserStateChanged`.
        func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String)
        /// These invitees have not answered in time. Called for the inviting user, right after `callUserStateChanged`.
        func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String)
        /// The invitation has expired. Called for the invitee where `callInvitationTimeout` with the call's mode is not
        /// implemented.
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
