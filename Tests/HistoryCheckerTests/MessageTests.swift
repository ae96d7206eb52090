import SignalingProtocol
import Testing

@testable import HistoryChecker

/// The checker's findings on peer messages. Alice sends to Bob; times are milliseconds since the beginning.
struct MessageTests {
    private let alice = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
    private let bob = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
    private let message = MessageID("m")!
    private static let start: Int64 = 1_790_000_000_000

    /// The violations of a history, in which both devices are connected from the beginning.
    private func kinds(_ entries: [(Int64, HistoryEntry.Content)], settledAt: Int64 = 60_000) -> [Violation.Kind] {
        var checker = HistoryChecker()
        let all: [(Int64, HistoryEntry.Content)] =
            [
                (0, .began(coordinators: ["c1", "c2"])), (0, .connected(alice, session: "a")),
                (0, .connected(bob, session: "b")),
            ] + entries + [(settledAt, .settled)]
        for (at, content) in all { checker.observe(HistoryEntry(at: Self.start + at, content)) }
        checker.finish()
        return checker.violations.map(\.kind)
    }

    private func sent(ttl: Int = 20, id: String? = "m") -> HistoryEntry.Content {
        .sent(
            alice,
            .request(
                Request(
                    id: RequestID("r")!,
                    body: .message(
                        .init(
                            to: bob.userID, data: JSONText("1")!, ttl: ttl, messageID: id.map { MessageID($0)! },
                            seq: 1, stream: "s")))))
    }

    private func answered(_ state: MessageState, id: String = "m", time: Int64 = 110) -> HistoryEntry.Content {
        .received(
            alice,
            .response(
                Response(
                    id: RequestID("r")!,
                    outcome: .answer(.message(MessageID(id)!, time: Self.start + time, state: state)))))
    }

    private func received(
        _ id: String = "m", data: String = "1", seq: Int64 = 1, stream: String? = "s"
    ) -> HistoryEntry.Content {
        .received(
            bob,
            .message(
                .init(
                    messageID: MessageID(id)!, from: alice, time: Self.start + 110, seq: seq, stream: stream,
                    data: JSONText(data)!)))
    }

    private var acked: HistoryEntry.Content { .sent(bob, .ackMessage(message)) }

    private func receipt(_ state: MessageState, at: Int64) -> HistoryEntry.Content {
        .received(alice, .receipt(.init(messageID: message, to: bob.userID, state: state, time: Self.start + at)))
    }

    @Test func aDeliveredMessageIsFine() {
        #expect(
            kinds([
                (100, sent()), (120, answered(.sent)), (130, received()), (131, acked),
                (140, receipt(.delivered, at: 135)),
            ]).isEmpty)
    }

    @Test func aMessageThatNobodyAckedMayExpire() {
        let away: (Int64, HistoryEntry.Content) = (50, .disconnected(bob))
        #expect(
            kinds([away, (100, sent(ttl: 5)), (120, answered(.sent)), (5_130, receipt(.expired, at: 5_110))]).isEmpty)
    }

    @Test func aSecondReceiptOfTheSameStateIsFineAndAnotherStateIsNot() {
        let story: [(Int64, HistoryEntry.Content)] = [
            (100, sent()), (120, answered(.sent)), (130, received()), (131, acked),
        ]
        #expect(
            kinds(story + [(140, receipt(.delivered, at: 135)), (900, receipt(.delivered, at: 135))]).isEmpty)
        #expect(
            kinds(story + [(140, receipt(.delivered, at: 135)), (20_200, receipt(.expired, at: 20_110))])
                == [.receiptContradicted])
        #expect(
            kinds(story + [(140, receipt(.delivered, at: 135)), (20_190, sent()), (20_200, answered(.expired))]) == [
                .receiptContradicted
            ]
        )
    }

    @Test func deliveredWithoutAnAckIsWrong() {
        #expect(
            kinds([(100, sent()), (120, answered(.sent)), (130, received()), (140, receipt(.delivered, at: 135))])
                == [.receiptWrong])
    }

    @Test func expiredThoughAckedIsWrongUnlessSomethingWasDisturbed() {
        let story: [(Int64, HistoryEntry.Content)] = [
            (100, sent(ttl: 5)), (120, answered(.sent)), (130, received()), (131, acked),
            (5_130, receipt(.expired, at: 5_110)),
        ]
        #expect(kinds(story) == [.receiptWrong])
        let fault: [(Int64, HistoryEntry.Content)] = [
            (105, .faultBegan(target: "c1", .killed)), (1_000, .faultEnded(target: "c1")),
        ]
        #expect(kinds((story + fault).sorted { $0.0 < $1.0 }).isEmpty)
    }

    @Test func anAckThatCameTooLateOrWentWithItsConnectionIsNone() {
        let late: [(Int64, HistoryEntry.Content)] = [
            (100, sent(ttl: 5)), (120, answered(.sent)), (130, received()), (4_000, acked), (6_500, sent(ttl: 5)),
            (6_510, answered(.expired)),
        ]
        #expect(kinds(late).isEmpty)
        let lost: [(Int64, HistoryEntry.Content)] = [
            (100, sent(ttl: 5)), (120, answered(.sent)), (130, received()), (131, acked), (132, .disconnected(bob)),
            (5_130, receipt(.expired, at: 5_110)),
        ]
        #expect(kinds(lost).isEmpty)
    }

    @Test func expiredThoughTheRecipientWasThereIsWrong() {
        #expect(
            kinds([
                (10_000, sent(ttl: 20)), (10_020, answered(.sent, time: 10_010)),
                (30_050, receipt(.expired, at: 30_010)),
            ])
                == [.receiptWrong])
    }

    @Test func expiredBeforeItsTimeIsWrong() {
        #expect(
            kinds([
                (50, .disconnected(bob)), (100, sent(ttl: 5)), (120, answered(.sent)),
                (4_000, receipt(.expired, at: 3_990)),
            ]) == [.receiptWrong])
    }

    @Test func aMessageWithoutReceiptIsMissedUnlessItsSenderWasAway() {
        let story: [(Int64, HistoryEntry.Content)] = [
            (100, sent(ttl: 5)), (120, answered(.sent)), (130, received()), (131, acked),
        ]
        #expect(kinds(story) == [.receiptMissing])
        #expect(kinds(story + [(3_000, .disconnected(alice))]).isEmpty)
        #expect(kinds(story + [(3_000, .lost(alice, .down))]).isEmpty)
    }

    @Test func aMessageThatIsUnderWayForEverIsMissed() {
        #expect(
            kinds([
                (50, .disconnected(bob)), (100, sent(ttl: 5)), (120, answered(.sent)), (40_000, sent(ttl: 5)),
                (40_010, answered(.sent)), (40_020, .disconnected(alice)),
            ]) == [.receiptMissing])
    }

    @Test func oneRequestMakesOneMessage() {
        #expect(
            kinds([
                (100, sent(id: nil)), (120, answered(.sent, id: "x")), (130, received("y")),
                (150, .disconnected(alice)),
            ]) == [.messageForged])
        #expect(
            kinds([
                (100, sent()), (120, answered(.sent)), (150, sent()), (160, answered(.sent, time: 155)),
                (170, .disconnected(alice)),
            ]) == [.messageForged])
    }

    @Test func aReceiptMayComeBeforeTheResponseThatNamesItsMessage() {
        #expect(
            kinds([
                (100, sent(id: nil)), (110, received()), (120, acked), (130, receipt(.delivered, at: 125)),
                (140, answered(.sent)), (150, .disconnected(alice)),
            ]).isEmpty)
        // No device received a copy, and the response comes last.
        #expect(
            kinds([
                (50, .disconnected(bob)), (100, sent(ttl: 5, id: nil)), (5_200, receipt(.expired, at: 5_150)),
                (5_300, answered(.sent)), (5_400, .disconnected(alice)),
            ]).isEmpty)
        // Once the response has come, the receipt counts: this message did not live long enough to expire.
        #expect(
            kinds([
                (50, .disconnected(bob)), (100, sent(ttl: 20, id: nil)), (1_200, receipt(.expired, at: 1_150)),
                (1_300, answered(.sent)), (1_400, .disconnected(alice)),
            ]) == [.receiptWrong])
        // The response does not name the message of the receipt.
        #expect(
            kinds([
                (100, sent(id: nil)), (120, answered(.sent, id: "x")), (130, receipt(.delivered, at: 125)),
                (150, .disconnected(alice)),
            ]) == [.messageForged])
    }

    @Test func whatNobodySentIsForged() {
        #expect(kinds([(100, received())]) == [.messageForged])
        #expect(kinds([(90, sent()), (100, received(data: "2")), (110, .disconnected(alice))]) == [.messageForged])
        #expect(kinds([(90, sent()), (100, received(seq: 2)), (110, .disconnected(alice))]) == [.messageForged])
        #expect(kinds([(90, sent()), (100, received(stream: nil)), (110, .disconnected(alice))]) == [.messageForged])
        #expect(kinds([(100, receipt(.delivered, at: 90))]) == [.messageForged])
    }
}
