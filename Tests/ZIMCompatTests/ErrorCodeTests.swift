import SignalingProtocol
import Testing

@testable import ZIMCompat

@Suite struct ErrorCodeTests {
    @Test(arguments: [
        (ErrorCode.badRequest, 6_000_001 as UInt), (.tooLarge, 6_000_001), (.callExists, 6_000_275),
        (.callNotFound, 6_000_276), (.notInviter, 6_000_273), (.alreadyInCall, 6_000_283), (.noInvitees, 6_000_281),
        (.userNotRegistered, 6_000_281), (.invalidState, 6_000_270), (.answeredElsewhere, 6_000_270),
        (.callEnded, 6_000_270), (.wrongMode, 6_000_270), (.callFull, 6_000_270), (.rateLimited, 6_000_005),
        (.unavailable, 6_000_272), (.internal, 6_000_272),
    ])
    func refusalsOfTheServiceHaveTheVendorsNumbers(code: ErrorCode, number: UInt) {
        #expect(ZIMErrorCode(code).rawValue == number)
    }

    @Test func everyCodeOfTheServiceHasANumber() {
        // The drop-in makes no request that the service refuses with the two other codes.
        for code in ErrorCode.all where code != .sessionOver && code != .noMedia {
            #expect(ZIMErrorCode(code) != .commonModuleIMServerError, "\(code)")
        }
    }

    @Test func statesOfMembersBecomeTheVendors() {
        let numbers = MemberState.allCases.map { ZIMCallUserState($0).rawValue }
        #expect(numbers == [0, 9, 5, 1, 2, 3, 6, 7])
    }
}
