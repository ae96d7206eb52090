import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Signals: numbered when they are sent, put into order when they are received (docs/protocol.md, section 2, Signals).
struct SignalOrderTests {
    private func signal(
        _ seq: Int64?, from user: UserID = alice, stream: String? = "s", data: String? = nil
    ) -> BellwireSignal {
        BellwireSignal(
            callID: callID, from: DeviceAddress(userID: user, deviceID: web), seq: seq, stream: stream,
            data: JSONText(data ?? "\(seq ?? -1)")!)
    }

    private func delivered(_ device: inout Device) -> [Int64?] {
        defer { device.take() }
        return device.told.compactMap { if case .signal(let signal) = $0 { signal.seq } else { nil } }
    }

    private func receive(_ device: inout Device, _ seqs: [Int64]) -> [Int64?] {
        for seq in seqs { device.receive(.signal(signal(seq))) }
        return delivered(&device)
    }

    @Test func inOrderTheyComeAtOnce() {
        var device = Device.online()
        #expect(receive(&device, [1, 2, 3]) == [1, 2, 3])
        #expect(device.machine.signalStreams.deadline == nil)
    }

    @Test func whatOvertookWaitsForWhatWasOvertaken() {
        var device = Device.online()
        #expect(receive(&device, [1, 3, 4]) == [1])
        #expect(receive(&device, [2]) == [2, 3, 4])
        #expect(receive(&device, [7, 6, 5]) == [5, 6, 7])
    }

    @Test func aGapIsGivenUpAfterHalfASecondAndNotBefore() {
        var device = Device.online()
        #expect(receive(&device, [1, 3]) == [1])
        device.pass(499)
        #expect(delivered(&device).isEmpty)
        device.pass(1)
        #expect(delivered(&device) == [3])
        #expect(receive(&device, [4]) == [4])
        // Late is better than never, and once is enough.
        #expect(receive(&device, [2]) == [2])
        #expect(receive(&device, [2, 3, 4]) == [])
    }

    @Test func twoGapsAreGivenUpEachInItsTime() {
        var device = Device.online()
        #expect(receive(&device, [1, 3]) == [1])
        device.pass(300)
        #expect(receive(&device, [5]) == [])
        device.pass(200)
        #expect(delivered(&device) == [3])
        device.pass(299)
        #expect(delivered(&device).isEmpty)
        device.pass(1)
        #expect(delivered(&device) == [5])
    }

    @Test func whenTheLaterOneIsDueTheEarlierOnesGoWithIt() {
        var device = Device.online()
        #expect(receive(&device, [1, 5]) == [1])
        device.pass(100)
        #expect(receive(&device, [3]) == [])
        device.pass(400)
        #expect(delivered(&device) == [3, 5])
    }

    @Test func aStreamThatDoesNotBeginWithOneIsWaitedFor() {
        var device = Device.online()
        #expect(receive(&device, [8, 7]) == [])
        device.pass(500)
        #expect(delivered(&device) == [7, 8])
        #expect(receive(&device, [9]) == [9])
    }

    @Test func aRestartedSenderIsAnotherStreamAndOtherSendersToo() {
        var device = Device.online()
        #expect(receive(&device, [1, 2]) == [1, 2])
        device.receive(.signal(signal(1, stream: "other")))
        device.receive(.signal(signal(1, from: carol)))
        device.receive(.signal(signal(1, stream: nil)))
        #expect(delivered(&device) == [1, 1, 1])
    }

    /// Swift's strings hold both spellings equal.
    @Test func theTwinOfAStreamIsAnotherStream() {
        var device = Device.online()
        device.receive(.signal(signal(1, stream: "caf\u{E9}")))
        device.receive(.signal(signal(1, stream: "cafe\u{301}")))
        #expect(delivered(&device) == [1, 1])
    }

    @Test func withoutANumberThereIsNoOrder() {
        var device = Device.online()
        for data in ["1", "1", "2"] { device.receive(.signal(signal(nil, data: data))) }
        #expect(delivered(&device).count == 3)
    }

    @Test func whatIsHeldIsBounded() {
        var device = Device.online()
        #expect(receive(&device, [1]) == [1])
        let held = Int64(ClientMachine.signalBounds.held)
        #expect(receive(&device, Array(3..<3 + held)) == [])
        #expect(receive(&device, [3 + held]).count == Int(held) + 1)
        for number in 0..<ClientMachine.signalBounds.streams + 10 {
            device.receive(.signal(signal(1, from: UserID("user-\(number)")!)))
        }
        #expect(device.machine.signalStreams.count == ClientMachine.signalBounds.streams)
    }

    @Test func whoBeginsEverNewStreamsDisplacesTheOwnOnesAlone() {
        var device = Device.online()
        device.receive(.signal(signal(1, from: carol)))
        device.receive(.signal(signal(3, from: carol)))
        _ = delivered(&device)
        for number in 0..<100 {
            device.receive(.signal(signal(1, stream: "stream-\(number)")))
            device.receive(.signal(signal(3, stream: "stream-\(number)")))
        }
        // The device does not lose the signals that a forgotten stream held.
        #expect(delivered(&device).count == 100 + 96)
        device.receive(.signal(signal(2, from: carol)))
        #expect(delivered(&device) == [2, 3])
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func anyShuffleWithinTheGapComesOutInOrder(seed: UInt64) {
        var device = Device.online()
        var state = seed
        func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        var order = Array(1...50 as ClosedRange<Int64>)
        for index in order.indices.dropLast() { order.swapAt(index, min(49, index + below(6))) }
        var arrived: [Int64?] = []
        for seq in order {
            arrived += receive(&device, below(4) == 0 ? [seq, seq] : [seq])
            device.pass(Int64(below(20)))
            arrived += delivered(&device)
        }
        device.pass(500)
        arrived += delivered(&device)
        #expect(arrived == Array(1...50 as ClosedRange<Int64>))
    }

    // MARK: Sending

    private func sent(_ device: Device) -> [Request.Signal] {
        device.actions.compactMap { if case .publish(.signal(let signal)) = $0.action { signal } else { nil } }
    }

    @Test func eachCallHasItsOwnNumbers() {
        var configuration = ClientMachine.Configuration()
        configuration.signalStream = "me"
        var device = Device.online(configuration: configuration)
        for id in ["a", "a", "b", "a"] {
            device.perform { $0.send(Request.Signal(callID: CallID(id)!, data: JSONText("1")!), now: $1) }
        }
        #expect(sent(device).map(\.seq) == [1, 2, 1, 3])
        #expect(sent(device).allSatisfy { $0.stream == "me" })
    }

    @Test func withoutAConnectionTheyWaitALittle() {
        var device = Device.online()
        device.disconnect()
        device.take()
        let signal = Request.Signal(callID: callID, data: JSONText("1")!)
        device.perform { $0.send(signal, now: $1) }
        device.pass(4_000)
        device.perform { $0.send(signal, now: $1) }
        #expect(sent(device).isEmpty)
        device.pass(2_000)
        device.connect("s2")
        #expect(sent(device).map(\.seq) == [2])
    }
}
