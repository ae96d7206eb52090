/// The callback of a login. Each callback of this SDK is called once, on the main queue.
public typealias ZIMLoggedInCallback = (_ errorInfo: ZIMError) -> Void
public typealias ZIMLogUploadedCallback = (_ errorInfo: ZIMError) -> Void
public typealias ZIMTokenRenewedCallback = (_ token: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMUserNameUpdatedCallback = (_ userName: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMUserAvatarUrlUpdatedCallback = (_ userAvatarUrl: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMUserExtendedDataUpdatedCallback = (_ extendedData: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMUsersInfoQueriedCallback = (
    _ userList: [ZIMUserFullInfo], _ errorUserList: [ZIMErrorUserInfo], _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallInvitationSentCallback = (
    _ callID: String, _ info: ZIMCallInvitationSentInfo, _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallingInvitationSentCallback = (
    _ callID: String, _ info: ZIMCallingInvitationSentInfo, _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallCancelSentCallback = (
    _ callID: String, _ errorInvitees: [String], _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallAcceptanceSentCallback = (_ callID: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMCallRejectionSentCallback = (_ callID: String, _ errorInfo: ZIMError) -> Void
public typealias ZIMCallJoinSentCallback = (
    _ callID: String, _ info: ZIMCallJoinSentInfo, _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallQuitSentCallback = (
    _ callID: String, _ info: ZIMCallQuitSentInfo, _ errorInfo: ZIMError
) -> Void
public typealias ZIMCallEndSentCallback = (
    _ callID: String, _ info: ZIMCallEndedSentInfo, _ errorInfo: ZIMError
) -> Void
/// The callback of a list query. `nextFlag` is 0 when there are no more calls.
public typealias ZIMCallInvitationListQueriedCallback = (
    _ callList: [ZIMCallInfo], _ nextFlag: Int64, _ errorInfo: ZIMError
) -> Void
public typealias ZIMRoomCreatedCallback = (_ roomInfo: ZIMRoomFullInfo, _ errorInfo: ZIMError) -> Void
public typealias ZIMRoomJoinedCallback = (_ roomInfo: ZIMRoomFullInfo, _ errorInfo: ZIMError) -> Void
public typealias ZIMRoomEnteredCallback = (_ roomInfo: ZIMRoomFullInfo, _ errorInfo: ZIMError) -> Void
public typealias ZIMRoomLeftCallback = (_ roomID: String, _ errorInfo: ZIMError) -> Void
