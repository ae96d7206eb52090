import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Peer messages in the SDK: each message is shown once, and each own message is followed until its receipt.
struct MessageTests {
    private let message = MessageID("m")!

    private func incoming(_ id: String) -> DownMessage {
        .message(
            BellwireIncomingMessage(
                messageID: MessageID(id)!, from: DeviceAddress(userID: alice, deviceID: web), time: 1,
                data: JSONText("1")!))
    }

    private func shown(_ device: Device) -> [String] {
        device.told.compactMap { if case .message(let message) = $0 { message.messageID.string } else { nil } }
    }

    private func receipts(_ device: Device) -> [String] {
        device.told.compactMap { if case .receipt(let receipt) = $0 { receipt.state.rawValue } else { nil } }
    }

    private func send(_ device: inout Device, ttl: Int? = nil) {
        device.send("r", .message(.init(to: alice, data: JSONText("1")!, ttl: ttl, messageID: message)))
    }

    private func answer(_ device: inout Device, _ state: MessageState) {
        device.receive(
            .response(Response(id: RequestID("r")!, outcome: .answer(.message(message, time: 1, state: state)))))
    }

    private func receipt(_ device: inout Device, _ state: MessageState, to: UserID = alice) {
        device.receive(.receipt(BellwireReceipt(messageID: message, to: to, state: state, time: 2)))
    }

    @Test func aMessageIsAckedEachTimeAndShownOnce() {
        var device = Device.online()
        for id in ["a", "b", "a", "a"] { device.receive(incoming(id)) }
        #expect(shown(device) == ["a", "b"])
        let acks = device.actions.compactMap { entry -> String? in
            if case .publish(.ackMessage(let id)) = entry.action { id.string } else { nil }
        }
        #expect(acks == ["a", "b", "a", "a"])
    }

    @Test func itIsShownOnceAlsoAfterAReconnect() {
        var device = Device.online()
        device.receive(incoming("a"))
        device.disconnect()
        device.connect("s2")
        device.receive(incoming("a"))
        #expect(shown(device) == ["a"])
    }

    @Test func whatIsRememberedIsBounded() {
        var device = Device.online()
        for number in 0..<3 * ClientMachine.shownMessages { device.receive(incoming("m\(number)")) }
        #expect(device.machine.shown.count <= ClientMachine.shownMessages)
        #expect(device.machine.shownOrder.count == device.machine.shown.count)
    }

    @Test func theReceiptIsToldOnce() {
        var device = Device.online()
        send(&device)
        answer(&device, .sent)
        receipt(&device, .delivered, to: carol)
        receipt(&device, .delivered)
        receipt(&device, .delivered)
        #expect(receipts(device) == ["delivered"])
        #expect(device.outcomes == ["r ok"])
        device.take()
        device.pass(600_000)
        #expect(device.sentRequests.isEmpty)
    }

    @Test func aReceiptThatOvertakesTheResponseCounts() {
        var device = Device.online()
        send(&device)
        receipt(&device, .delivered)
        answer(&device, .delivered)
        #expect(receipts(device) == ["delivered"])
    }

    @Test func aReceiptThatNeverCameIsAskedFor() {
        var device = Device.online()
        send(&device, ttl: 5)
        answer(&device, .sent)
        let start = device.now
        device.take()
        device.pass(7_999)
        #expect(device.sendTimes("r", since: start).isEmpty)
        device.pass(1)
        #expect(device.sendTimes("r", since: start) == [8_000])
        answer(&device, .expired)
        #expect(receipts(device) == ["expired"])
        #expect(device.outcomes.isEmpty)
        device.take()
        device.pass(60_000)
        #expect(device.sentRequests.isEmpty)
    }

    @Test func onANewConnectionItIsAskedForAtOnce() {
        var device = Device.online()
        send(&device, ttl: 600)
        answer(&device, .sent)
        device.disconnect()
        device.pass(2_000)
        device.take()
        device.connect("s2")
        let start = device.now
        device.pass(1_000)
        #expect(device.sendTimes("r", since: start) == [1_000])
        answer(&device, .delivered)
        #expect(receipts(device) == ["delivered"])
    }

    @Test func theAppIsToldWhenNothingIsKnown() {
        var device = Device.online()
        send(&device, ttl: 1)
        answer(&device, .sent)
        device.take()
        device.pass(3_600_000)
        #expect((3...12).contains(device.sentRequests.count))
        let errors = device.told.compactMap { if case .error(let error) = $0 { error.code } else { nil } }
        #expect(errors == [.noResponse])
    }

    @Test func aMessageThatWaitsLongIsFollowedToItsEnd() {
        var device = Device.online()
        send(&device, ttl: 600)
        answer(&device, .sent)
        for round in 0..<20 {
            device.disconnect()
            device.connect("again-\(round)")
            device.pass(20_000)
            answer(&device, .sent)
        }
        device.pass(200_000)
        #expect(device.told.allSatisfy { if case .error = $0 { false } else { true } })
        receipt(&device, .expired)
        #expect(receipts(device) == ["expired"])
    }

    @Test func withoutAnAnswerTheReceiptMayStillCome() {
        var device = Device.online()
        send(&device, ttl: 120)
        device.pass(31_000)
        #expect(device.outcomes == ["r noResponse"])
        receipt(&device, .delivered)
        #expect(receipts(device) == ["delivered"])
    }

    @Test func aRefusedMessageHasNoReceipt() {
        var device = Device.online()
        send(&device)
        device.respond("r", .userNotRegistered)
        device.take()
        device.pass(600_000)
        #expect(device.sentRequests.isEmpty)
        #expect(receipts(device).isEmpty)
    }
}
