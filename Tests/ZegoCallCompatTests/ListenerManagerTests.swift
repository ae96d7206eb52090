import BellwireClientCore
import Foundation
import SignalingProtocol
import Testing

@testable import ZegoCallCompat

struct ListenerManagerTests {
    private final class Heard: @unchecked Sendable {
        // Sendable: a single test touches the object, on a single thread.
        var paths: [String] = []
    }

    @Test func aListenerHearsItsPathUntilItIsRemoved() {
        let (manager, heard) = (ListenerManager(), Heard())
        let uuid = manager.addListener(Notify_Call_End) { _ in heard.paths.append("end") }
        manager.addListener(Notify_Call_Accept) { _ in heard.paths.append("accept") }
        manager.receiveUpdate(Notify_Call_End, parameter: [:])
        manager.removeListener(uuid, for: Notify_Call_End)
        manager.receiveUpdate(Notify_Call_End, parameter: [:])
        manager.receiveUpdate(Notify_Call_Accept, parameter: [:])
        #expect(heard.paths == ["end", "accept"])
    }

    @Test func aListenerMayRemoveItselfWhileItHears() {
        let (manager, heard) = (ListenerManager(), Heard())
        var uuid = UUID()
        uuid = manager.addListener(Notify_Call_End) { _ in
            heard.paths.append("end")
            manager.removeListener(uuid, for: Notify_Call_End)
        }
        manager.receiveUpdate(Notify_Call_End, parameter: [:])
        manager.receiveUpdate(Notify_Call_End, parameter: [:])
        #expect(heard.paths == ["end"])
    }

    @Test func theVendorsCodesAreTheVendors() {
        let errors: [ZegoError] = [
            .failed, .paramInvalid, .notInit, .networkError, .notLogin, .callStatusWrong, .tokenExpired, .other(7),
        ]
        #expect(errors.map(\.code) == [1001, 1002, 1003, 1004, 1005, 2001, 2002, 7])
    }

    @Test(arguments: [
        ("callNotFound", ZegoError.failed), ("invalidState", .callStatusWrong), ("callEnded", .callStatusWrong),
        ("answeredElsewhere", .callStatusWrong), ("alreadyInCall", .callStatusWrong), ("callExists", .callStatusWrong),
        ("noResponse", .networkError), ("unavailable", .networkError), ("badRequest", .paramInvalid),
        ("disconnected", .notLogin), ("somethingNew", .failed),
    ])
    func theServicesRefusalsHaveCodes(_ code: String, _ error: ZegoError) {
        let text = (error as any Error).localizedDescription
        #expect(!text.isEmpty && !text.contains("ZegoCallCompat"), "words, and not the name of the type")
        #expect(ZegoError(SignalingError(ErrorCode(rawValue: code), "")) == error)
    }
}
