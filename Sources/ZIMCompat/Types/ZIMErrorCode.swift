#if canImport(ObjectiveC)
    internal import Foundation
#endif

/// The result of a request to the SDK. Each value has two names, since the original's names changed between its
/// versions: `ZIMErrorCodeSuccess`, also the name in Objective-C, and `success`.
#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMErrorCode: UInt, Sendable {
    case success = 0
    case failed = 1
    /// A parameter is missing or not valid: the message names the parameter.
    case commonModuleParamsInvalid = 6_000_001
    /// `ZIM.configure` was not called.
    case commonModuleEngineNotInit = 6_000_002
    case commonModuleTriggerServerFrequencyLimit = 6_000_005
    case commonModuleIMServerError = 6_000_007
    case commonModuleUserIsNotExist = 6_000_011
    case networkModuleTokenInvalid = 6_000_103
    /// The service cannot be reached.
    case networkModuleNetworkError = 6_000_104
    /// The service did not answer in time, and may have served the request.
    case networkModuleRequestTimeout = 6_000_105
    case networkModuleTokenExpired = 6_000_106
    case networkModuleUserHasAlreadyLogged = 6_000_111
    case networkModuleUserIsNotLogged = 6_000_121
    /// The state of the call, or of the user in the call, does not allow the request.
    case messageModuleCallError = 6_000_270
    case messageModuleCancelCallError = 6_000_271
    case messageModuleCallServerError = 6_000_272
    case messageModuleIsNotInvitor = 6_000_273
    case messageModuleIsNotInvitee = 6_000_274
    case messageModuleCallAlreadyExists = 6_000_275
    case messageModuleCallDoseNotExist = 6_000_276
    case messageModuleCallInviteUserDoesNotExist = 6_000_281
    case messageModuleUserAlreadyInTheCall = 6_000_283
    case roomModuleCreateRoomError = 6_000_303
    case roomModuleJoinRoomError = 6_000_304
    case roomModuleUserIsNotInTheRoom = 6_000_321
    case roomModuleTheNumberOfJoinedRoomsHasReachedLimit = 6_000_325
}

// The names are the vendor's.
// swift-format-ignore: AlwaysUseLowerCamelCase
extension ZIMErrorCode {
    public static let ZIMErrorCodeSuccess = success
    public static let ZIMErrorCodeFailed = failed
    public static let ZIMErrorCodeCommonModuleParamsInvalid = commonModuleParamsInvalid
    public static let ZIMErrorCodeCommonModuleEngineNotInit = commonModuleEngineNotInit
    public static let ZIMErrorCodeCommonModuleTriggerServerFrequencyLimit = commonModuleTriggerServerFrequencyLimit
    public static let ZIMErrorCodeCommonModuleIMServerError = commonModuleIMServerError
    public static let ZIMErrorCodeCommonModuleUserIsNotExist = commonModuleUserIsNotExist
    public static let ZIMErrorCodeNetworkModuleTokenInvalid = networkModuleTokenInvalid
    public static let ZIMErrorCodeNetworkModuleNetworkError = networkModuleNetworkError
    public static let ZIMErrorCodeNetworkModuleRequestTimeout = networkModuleRequestTimeout
    public static let ZIMErrorCodeNetworkModuleTokenExpired = networkModuleTokenExpired
    public static let ZIMErrorCodeNetworkModuleUserHasAlreadyLogged = networkModuleUserHasAlreadyLogged
    public static let ZIMErrorCodeNetworkModuleUserIsNotLogged = networkModuleUserIsNotLogged
    public static let ZIMErrorCodeMessageModuleCallError = messageModuleCallError
    public static let ZIMErrorCodeMessageModuleCancelCallError = messageModuleCancelCallError
    public static let ZIMErrorCodeMessageModuleCallServerError = messageModuleCallServerError
    public static let ZIMErrorCodeMessageModuleIsNotInvitor = messageModuleIsNotInvitor
    public static let ZIMErrorCodeMessageModuleIsNotInvitee = messageModuleIsNotInvitee
    public static let ZIMErrorCodeMessageModuleCallAlreadyExists = messageModuleCallAlreadyExists
    public static let ZIMErrorCodeMessageModuleCallDoseNotExist = messageModuleCallDoseNotExist
    public static let ZIMErrorCodeMessageModuleCallInviteUserDoesNotExist = messageModuleCallInviteUserDoesNotExist
    public static let ZIMErrorCodeMessageModuleUserAlreadyInTheCall = messageModuleUserAlreadyInTheCall
    public static let ZIMErrorCodeRoomModuleCreateRoomError = roomModuleCreateRoomError
    public static let ZIMErrorCodeRoomModuleJoinRoomError = roomModuleJoinRoomError
    public static let ZIMErrorCodeRoomModuleUserIsNotInTheRoom = roomModuleUserIsNotInTheRoom
    public static let ZIMErrorCodeRoomModuleTheNumberOfJoinedRoomsHasReachedLimit =
        roomModuleTheNumberOfJoinedRoomsHasReachedLimit
}
