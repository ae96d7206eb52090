import Testing
import ZIMCompat

/// The names and numbers of the vendor, which apps store and log.
@Suite struct EnumTests {
    @Test(arguments: [
        (ZIMErrorCode.success, ZIMErrorCode.ZIMErrorCodeSuccess, 0 as UInt),
        (.failed, .ZIMErrorCodeFailed, 1),
        (.commonModuleParamsInvalid, .ZIMErrorCodeCommonModuleParamsInvalid, 6_000_001),
        (.commonModuleEngineNotInit, .ZIMErrorCodeCommonModuleEngineNotInit, 6_000_002),
        (
            .commonModuleTriggerServerFrequencyLimit, .ZIMErrorCodeCommonModuleTriggerServerFrequencyLimit,
            6_000_005
        ),
        (.commonModuleIMServerError, .ZIMErrorCodeCommonModuleIMServerError, 6_000_007),
        (.commonModuleUserIsNotExist, .ZIMErrorCodeCommonModuleUserIsNotExist, 6_000_011),
        (.networkModuleTokenInvalid, .ZIMErrorCodeNetworkModuleTokenInvalid, 6_000_103),
        (.networkModuleNetworkError, .ZIMErrorCodeNetworkModuleNetworkError, 6_000_104),
        (.networkModuleRequestTimeout, .ZIMErrorCodeNetworkModuleRequestTimeout, 6_000_105),
        (.networkModuleTokenExpired, .ZIMErrorCodeNetworkModuleTokenExpired, 6_000_106),
    ])
    func aCodeOfTheConnectionHasTwoNames(short: ZIMErrorCode, long: ZIMErrorCode, number: UInt) {
        #expect(short == long && short.rawValue == number)
        #expect(ZIMErrorCode(rawValue: number) == short)
    }

    @Test(arguments: [
        (
            ZIMErrorCode.networkModuleUserHasAlreadyLogged, ZIMErrorCode.ZIMErrorCodeNetworkModuleUserHasAlreadyLogged,
            6_000_111 as UInt
        ),
        (.networkModuleUserIsNotLogged, .ZIMErrorCodeNetworkModuleUserIsNotLogged, 6_000_121),
        (.messageModuleCallError, .ZIMErrorCodeMessageModuleCallError, 6_000_270),
        (.messageModuleCancelCallError, .ZIMErrorCodeMessageModuleCancelCallError, 6_000_271),
        (.messageModuleCallServerError, .ZIMErrorCodeMessageModuleCallServerError, 6_000_272),
        (.messageModuleIsNotInvitor, .ZIMErrorCodeMessageModuleIsNotInvitor, 6_000_273),
        (.messageModuleIsNotInvitee, .ZIMErrorCodeMessageModuleIsNotInvitee, 6_000_274),
        (.messageModuleCallAlreadyExists, .ZIMErrorCodeMessageModuleCallAlreadyExists, 6_000_275),
        (.messageModuleCallDoseNotExist, .ZIMErrorCodeMessageModuleCallDoseNotExist, 6_000_276),
        (
            .messageModuleCallInviteUserDoesNotExist, .ZIMErrorCodeMessageModuleCallInviteUserDoesNotExist, 6_000_281
        ),
        (.messageModuleUserAlreadyInTheCall, .ZIMErrorCodeMessageModuleUserAlreadyInTheCall, 6_000_283),
        (.roomModuleCreateRoomError, .ZIMErrorCodeRoomModuleCreateRoomError, 6_000_303),
        (.roomModuleJoinRoomError, .ZIMErrorCodeRoomModuleJoinRoomError, 6_000_304),
        (.roomModuleUserIsNotInTheRoom, .ZIMErrorCodeRoomModuleUserIsNotInTheRoom, 6_000_321),
        (
            .roomModuleTheNumberOfJoinedRoomsHasReachedLimit,
            .ZIMErrorCodeRoomModuleTheNumberOfJoinedRoomsHasReachedLimit, 6_000_325
        ),
    ])
    func aCodeOfCallsHasTwoNames(short: ZIMErrorCode, long: ZIMErrorCode, number: UInt) {
        #expect(short == long && short.rawValue == number)
        #expect(ZIMErrorCode(rawValue: number) == short)
    }

    @Test func statesOfUsersAreNumbered() {
        let states: [ZIMCallUserState] = [
            .unknown, .inviting, .accepted, .rejected, .cancelled, .offline, .received, .timeout, .quit, .end,
            .notYetReceived, .beCancelled,
        ]
        #expect(states.map(\.rawValue) == Array(-1...10))
    }

    @Test func modesAndStatesOfCallsAreNumbered() {
        #expect([ZIMCallInvitationMode.unknown, .general, .advanced].map(\.rawValue) == [-1, 0, 1])
        #expect([ZIMCallState.unknown, .started, .ended].map(\.rawValue) == [-1, 1, 2])
    }

    @Test func whatIsToldOfTheConnectionIsNumbered() {
        let states: [ZIMConnectionState] = [.disconnected, .connecting, .connected, .reconnecting]
        #expect(states.map(\.rawValue) == [0, 1, 2, 3])
        let events: [ZIMConnectionEvent] = [
            .success, .activeLogin, .loginTimeout, .loginInterrupted, .kickedOut, .tokenExpired, .unregistered,
        ]
        #expect(events.map(\.rawValue) == [0, 1, 2, 3, 4, 5, 6])
    }

    @Test func handlesOfCallersAreNumbered() {
        #expect([ZIMCXHandleType.generic, .phoneNumber, .emailAddress].map(\.rawValue) == [1, 2, 3])
    }
}
