import AppleTransport
import BellwireClientCore
import Foundation
import Testing

/// The text of an error that an app on Apple's platforms shows.
@Suite struct LocalizedErrorTests {
    @Test(arguments: [("the call has ended", "the call has ended"), ("", "callEnded")])
    func anErrorIsShownByItsTextOrElseItsCode(_ message: String, _ shown: String) {
        let error: any Error = SignalingError(.callEnded, message)
        #expect(error.localizedDescription == shown)
    }
}
