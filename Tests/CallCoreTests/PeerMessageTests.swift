import CallCore
import SignalingProtocol
import Testing

/// The states of a peer message (docs/protocol.md, section 2, Peer messages). The message is sent at 0.
struct PeerMessageTests {
    private func message(ttl: Milliseconds = 30_000) -> PeerMessage {
        let device = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
        return PeerMessage(
            Request.Message(to: UserID("bob")!, data: JSONText("[1]")!, seq: 3), messageID: MessageID("m")!,
            origin: RequestKey(device: device, requestID: RequestID("r")!), ttl: ttl, isWithheld: false, now: 0)
    }

    @Test func itIsSentAgainBySchedule() {
        var message = message(ttl: 40_000)
        var times: [Milliseconds] = []
        while message.isWaiting, let due = message.nextDeadline {
            times.append(due)
            message.deadlineReached(now: due)
        }
        #expect(times == [1_000, 3_000, 7_000, 15_000, 23_000, 31_000, 39_000, 40_000])
        #expect(message.state == .expired && message.data == nil)
        #expect(
            message.receipt
                == BellwireReceipt(messageID: message.messageID, to: message.to, state: .expired, time: 40_000))
    }

    @Test func aLateCoordinatorSendsOnceAndGoesOnBySchedule() {
        var message = message()
        message.deadlineReached(now: 8_000)
        #expect(message.nextDeadline == 15_000)
        #expect(message.incoming(now: 8_000)?.data == JSONText("[1]"))
    }

    @Test func beforeItsTimeNothingHappens() {
        var message = message()
        let before = message
        message.deadlineReached(now: 999)
        #expect(message == before)
    }

    @Test func anAckFinishesItOnce() {
        var message = message()
        #expect(message.receipt == nil)
        let first = message.acknowledged(now: 500)
        let second = message.acknowledged(now: 600)
        #expect(first && !second)
        #expect(message.receipt?.state == .delivered && message.receipt?.time == 500)
        #expect(message.incoming(now: 500) == nil)
        #expect(message.data == nil)
    }

    @Test func whatHasExpiredIsNotSentEvenBeforeThatIsRecorded() {
        #expect(message().incoming(now: 29_999) != nil)
        #expect(message().incoming(now: 30_000) == nil)
    }

    @Test func aReceiptIsOwedUntilItIsSent() {
        var message = message()
        _ = message.acknowledged(now: 500)
        #expect(message.nextDeadline == 1_500)
        message.deadlineReached(now: 1_700)
        #expect(message.nextDeadline == 2_700)
        message.receiptSent()
        #expect(message.nextDeadline == nil)
        #expect(message.receipt?.time == 500)
    }
}
