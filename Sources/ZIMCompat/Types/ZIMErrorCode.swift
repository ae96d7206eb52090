/// The result of a request to the SDK. Each value has two names, since the original's names changed between its
/// versions: `ZIMErrorCodeSuccess` and `success`.
// The names are the vendor's.
// swift-format-ignore: AlwaysUseLowerCamelCase
public enum ZIMErrorCode: UInt, Sendable {
    case ZIMErrorCodeSuccess = 0
    case ZIMErrorCodeFailed = 1
    /// A parameter is missing or not valid: the message names the parameter.
    case ZIMErrorCodeCommonModuleParamsInvalid = 6_000_001
    /// `ZIM.configure` was not called.
    case ZIMErrorCodeCommonModuleEngineNotInit = 6_000_002
    case ZIMErrorCodeCommonModuleTriggerServerFrequencyLimit = 6_000_005
    case ZIMErrorCodeCommonModuleIMServerError = 6_000_007
    case ZIMErrorCodeCommonModuleUserIsNotExist = 6_000_011
    case ZIMErrorCodeNetworkModuleTokenInvalid = 6_000_103
    /// The service cannot be reached.
    case ZIMErrorCodeNetworkModuleNetworkError = 6_000_104
    /// The service did not answer in time, and may have served the request.
    case ZIMErrorCodeNetworkModuleRequestTimeout = 6_000_105
    case ZIMErrorCodeNetworkModuleTokenExpired = 6_000_106
    case ZIMErrorCodeNetworkModuleUserHasAlreadyLogged = 6_000_111
    case ZIMErrorCodeNetworkModuleUserIsNotLogged = 6_000_121
    /// The state of the call, or of the user in the call, does not allow the request.
    case ZIMErrorCodeMessageModuleCallError = 6_000_270
    case ZIMErrorCodeMessageModuleCancelCallError = 6_000_271
    case ZIMErrorCodeMessageModuleCallServerError = 6_000_272
    case ZIMErrorCodeMessageModuleIsNotInvitor = 6_000_273
    case ZIMErrorCodeMessageModuleIsNotInvitee = 6_000_274
    case ZIMErrorCodeMessageModuleCallAlreadyExists = 6_000_275
    case ZIMErrorCodeMessageModuleCallDoseNotExist = 6_000_276
    case ZIMErrorCodeMessageModuleCallInviteUserDoesNotExist = 6_000_281
    case ZIMErrorCodeMessageModuleUserAlreadyInTheCall = 6_000_283
    case ZIMErrorCodeRoomModuleCreateRoomError = 6_000_303
    case ZIMErrorCodeRoomModuleJoinRoomError = 6_000_304
    case ZIMErrorCodeRoomModuleUserIsNotInTheRoom = 6_000_321
    case ZIMErrorCodeRoomModuleTheNumberOfJoinedRoomsHasReachedLimit = 6_000_325
}

extension ZIMErrorCode {
    public static let success = ZIMErrorCodeSuccess
    public static let failed = ZIMErrorCodeFailed
    public static let commonModuleParamsInvalid = ZIMErrorCodeCommonModuleParamsInvalid
    public static let commonModuleEngineNotInit = ZIMErrorCodeCommonModuleEngineNotInit
    public static let commonModuleTriggerServerFrequencyLimit = ZIMErrorCodeCommonModuleTriggerServerFrequencyLimit
    public static let commonModuleIMServerError = ZIMErrorCodeCommonModuleIMServerError
    public static let commonModuleUserIsNotExist = ZIMErrorCodeCommonModuleUserIsNotExist
    public static let networkModuleTokenInvalid = ZIMErrorCodeNetworkModuleTokenInvalid
    public static let networkModuleNetworkError = ZIMErrorCodeNetworkModuleNetworkError
    public static let networkModuleRequestTimeout = ZIMErrorCodeNetworkModuleRequestTimeout
    public static let networkModuleTokenExpired = ZIMErrorCodeNetworkModuleTokenExpired
    public static let networkModuleUserHasAlreadyLogged = ZIMErrorCodeNetworkModuleUserHasAlreadyLogged
    public static let networkModuleUserIsNotLogged = ZIMErrorCodeNetworkModuleUserIsNotLogged
    public static let messageModuleCallError = ZIMErrorCodeMessageModuleCallError
    public static let messageModuleCancelCallError = ZIMErrorCodeMessageModuleCancelCallError
    public static let messageModuleCallServerError = ZIMErrorCodeMessageModuleCallServerError
    public static let messageModuleIsNotInvitor = ZIMErrorCodeMessageModuleIsNotInvitor
    public static let messageModuleIsNotInvitee = ZIMErrorCodeMessageModuleIsNotInvitee
    public static let messageModuleCallAlreadyExists = ZIMErrorCodeMessageModuleCallAlreadyExists
    public static let messageModuleCallDoseNotExist = ZIMErrorCodeMessageModuleCallDoseNotExist
    public static let messageModuleCallInviteUserDoesNotExist = ZIMErrorCodeMessageModuleCallInviteUserDoesNotExist
    public static let messageModuleUserAlreadyInTheCall = ZIMErrorCodeMessageModuleUserAlreadyInTheCall
    public static let roomModuleCreateRoomError = ZIMErrorCodeRoomModuleCreateRoomError
    public static let roomModuleJoinRoomError = ZIMErrorCodeRoomModuleJoinRoomError
    public static let roomModuleUserIsNotInTheRoom = ZIMErrorCodeRoomModuleUserIsNotInTheRoom
    public static let roomModuleTheNumberOfJoinedRoomsHasReachedLimit =
        ZIMErrorCodeRoomModuleTheNumberOfJoinedRoomsHasReachedLimit
}
