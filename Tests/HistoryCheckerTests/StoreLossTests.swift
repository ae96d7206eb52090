import HistoryChecker
import SignalingProtocol
import Testing

/// The store went back: the checker excuses only the writes that the store may have lost.
@Suite struct StoreLossTests {
    /// Revision 3 was bob's answer, and is given a second time.
    private func givenTwice(lost: Bool) -> [Violation.Kind] {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.at(3_000)
        if lost { ringing.tale.storeWentBack(to: 1_500) }
        ringing.tale.at(4_000)
        ringing.tale.told("bob/phone", .cancelled, ringing.received.then("bob", .cancelled, at: 4_000))
        return ringing.tale.broken
    }

    @Test func aRevisionThatWasLostMayBeGivenASecondTime() {
        #expect(givenTwice(lost: false).contains(.twoFaces))
        #expect(givenTwice(lost: true).isEmpty)
    }

    @Test func aCallThatWasMadeAfterwardsIsJudged() {
        var ringing = Ringing()
        ringing.tale.at(3_000)
        ringing.tale.storeWentBack(to: 1_500)
        let call = invitation("later", at: 4_000)
        ringing.tale.at(4_010)
        ringing.tale.told("alice/phone", .userStateChanged, call.then("bob", .received, at: 4_005))
        ringing.tale.told("bob/phone", .cancelled, call.then("bob", .cancelled, at: 4_006))
        #expect(ringing.tale.broken.contains(.twoFaces))
    }

    @Test func itIsReadFromALine() throws {
        let line = Array(#"{"at":5,"kind":"storeWentBack","since":3}"#.utf8)
        #expect(try HistoryEntry.decode(line: line) == HistoryEntry(at: 5, .storeWentBack(since: 3)))
    }
}
