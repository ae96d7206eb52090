import HistoryChecker
import SignalingProtocol
import Testing

@Suite struct HistoryLineTests {
    private func decode(_ line: String) throws -> HistoryEntry? { try HistoryEntry.decode(line: Array(line.utf8)) }

    @Test func aLineHoldsAMessageAsItWentOverTheWire() throws {
        let line =
            #"{"at":5,"kind":"sent","device":"a/b/phone","payload":"{\"type\":\"ack\",\"callID\":\"c\",\"revision\":3}"}"#
        let device = DeviceAddress(userID: UserID("a/b")!, deviceID: DeviceID("phone")!)
        #expect(try decode(line) == HistoryEntry(at: 5, .sent(device, .ackCall(CallID("c")!, revision: 3))))
    }

    @Test func faultsAndLossesAreRead() throws {
        #expect(
            try decode(#"{"at":1,"kind":"faultBegan","target":"broker","fault":"stopped"}"#)
                == HistoryEntry(at: 1, .faultBegan(target: HistoryEntry.broker, .stopped)))
        #expect(
            try decode(#"{"at":1,"kind":"lost","device":"a/phone","direction":"down"}"#)
                == HistoryEntry(
                    at: 1, .lost(DeviceAddress(userID: UserID("a")!, deviceID: DeviceID("phone")!), .down)))
    }

    @Test func aMessageOfALaterVersionIsPassedOver() throws {
        #expect(try decode(#"{"at":1,"kind":"received","device":"a/phone","payload":"{\"type\":\"news\"}"}"#) == nil)
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"at":1,"kind":"dreamt"}"#, #"{"at":1,"kind":"sent","device":"a/phone","payload":"{"}"#,
        #"{"at":1,"kind":"connected","device":"nobody","session":""}"#,
    ])
    func aLineThatIsNoneIsAnError(line: String) {
        #expect(throws: HistoryLineError.self) { try decode(line) }
    }
}
