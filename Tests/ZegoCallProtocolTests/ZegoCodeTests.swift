import SignalingProtocol
import Testing
import ZegoCallProtocol

/// The codes of ZEGO Call's clients for the service's refusals.
struct ZegoCodeTests {
    private static let known: [ErrorCode: ZegoCode] = [
        .badRequest: .paramInvalid, .unknownType: .paramInvalid, .tooLarge: .paramInvalid,
        .invalidState: .callStatusWrong, .callEnded: .callStatusWrong, .answeredElsewhere: .callStatusWrong,
        .alreadyInCall: .callStatusWrong, .callExists: .callStatusWrong, .unavailable: .networkError,
    ]

    @Test(arguments: ErrorCode.all + [ErrorCode(rawValue: "somethingNew")])
    func everyRefusalHasACode(_ code: ErrorCode) {
        #expect(ZegoCode(code) == Self.known[code] ?? .failed)
    }

    @Test func theNumbersAreTheVendors() {
        #expect(ZegoCode.allCases.map(\.rawValue) == [1001, 1002, 1003, 1004, 1005, 2001, 2002])
        #expect(ZegoCode.success == 0)
    }
}
