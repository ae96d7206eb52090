public import Foundation

/// The result of a request to the SDK, also of a successful request.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMError: NSObject {
    public var code = ZIMErrorCode.success
    /// A text for people.
    public var message = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMUserInfo: NSObject {
    public var userID = ""
    public var userName = ""
    public var userAvatarUrl = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMUserFullInfo: NSObject {
    public var baseInfo = ZIMUserInfo()
    public var userAvatarUrl = ""
    public var extendedData = ""
}

/// A user for whom a request failed.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMErrorUserInfo: NSObject {
    public var userID = ""
    /// A `ZIMErrorCode`.
    public var reason: UInt32 = 0
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallUserInfo: NSObject {
    public var userID = ""
    public var state = ZIMCallUserState.unknown
    /// The data of the user's last accept, reject, join or quit, or of its inviter's cancel.
    public var extendedData = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationSentInfo: NSObject {
    /// The timeout of the invitations, in seconds.
    public var timeout: UInt32 = 0
    /// The users who were not invited, and the reasons. An offline user is invited.
    public var errorUserList: [ZIMErrorUserInfo] = []
    /// The same users, in the type of earlier versions.
    public var errorInvitees: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallingInvitationSentInfo: NSObject {
    public var errorUserList: [ZIMErrorUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallJoinSentInfo: NSObject {
    /// The call's data.
    public var extendedData = ""
    /// The creation time of the call: milliseconds since the Unix epoch by the service's clock, like all times; 0 for
    /// an event that has not happened.
    public var createTime: Int64 = 0
    public var joinTime: Int64 = 0
    public var callUserList: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallQuitSentInfo: NSObject {
    public var createTime: Int64 = 0
    /// The time at which the first invitee accepted.
    public var acceptTime: Int64 = 0
    public var quitTime: Int64 = 0
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallEndedSentInfo: NSObject {
    public var createTime: Int64 = 0
    /// The time at which the first invitee accepted.
    public var acceptTime: Int64 = 0
    public var endTime: Int64 = 0
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationCreatedInfo: NSObject {
    public var mode = ZIMCallInvitationMode.general
    public var caller = ""
    public var extendedData = ""
    /// The timeout of the invitations, in seconds.
    public var timeout: UInt32 = 0
    public var createTime: Int64 = 0
    public var callUserList: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationReceivedInfo: NSObject {
    public var mode = ZIMCallInvitationMode.general
    /// The user who made the call.
    public var caller = ""
    /// The user who invited this user.
    public var inviter = ""
    public var extendedData = ""
    /// The timeout of the invitations, in seconds.
    public var timeout: UInt32 = 0
    public var createTime: Int64 = 0
    /// All members, with the caller as `accepted`.
    public var callUserList: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationCancelledInfo: NSObject {
    public var inviter = ""
    public var mode = ZIMCallInvitationMode.general
    public var extendedData = ""
}

/// The info of an event of ZIM up to 2.8.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationAcceptedInfo: NSObject {
    public var invitee = ""
    /// The data of the invitee's answer.
    public var extendedData = ""
}

/// The info of an event of ZIM up to 2.8.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationRejectedInfo: NSObject {
    public var invitee = ""
    /// The data of the invitee's answer.
    public var extendedData = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationTimeoutInfo: NSObject {
    public var mode = ZIMCallInvitationMode.general
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationEndedInfo: NSObject {
    public var caller = ""
    /// The user who ended the call; empty when the call ended by itself.
    public var operatedUserID = ""
    public var extendedData = ""
    public var mode = ZIMCallInvitationMode.general
    public var endTime: Int64 = 0
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallUserStateChangeInfo: NSObject {
    public var callUserList: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInfo: NSObject {
    public var callID = ""
    public var caller = ""
    /// The user who invited this user.
    public var inviter = ""
    public var createTime: Int64 = 0
    public var endTime: Int64 = 0
    public var state = ZIMCallState.unknown
    public var mode = ZIMCallInvitationMode.general
    public var extendedData = ""
    public var callUserList: [ZIMCallUserInfo] = []
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMRoomInfo: NSObject {
    public var roomID = ""
    public var roomName = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMRoomFullInfo: NSObject {
    public var baseInfo = ZIMRoomInfo()
}
