import SignalingProtocol
import Support
import Testing

@testable import BellwireClientCore

/// Messages in the order of their sender, in numbers and bounds that are too many for the shared cases
/// (docs/protocol.md, section 2, Peer messages).
struct MessageOrderTests {
    private func receive(
        _ device: inout Device, _ seq: Int64, _ id: String? = nil, from user: UserID = alice, on name: String = "web",
        stream: String = "s"
    ) {
        let sender = DeviceAddress(userID: user, deviceID: DeviceID(name)!)
        device.receive(
            .message(
                BellwireIncomingMessage(
                    messageID: MessageID(id ?? "m\(seq)")!, from: sender, time: 1, seq: seq, stream: stream,
                    data: JSONText("1")!)))
    }

    private func told(_ device: inout Device) -> [Int64?] {
        defer { device.take() }
        return device.told.compactMap { if case .message(let message) = $0 { message.seq } else { nil } }
    }

    // MARK: Receiving

    @Test func whatIsHeldOfAStreamIsBounded() {
        var device = Device.online()
        receive(&device, 1)
        let held = Int64(ClientMachine.messageBounds.held)
        for seq in 3..<3 + held { receive(&device, seq) }
        #expect(told(&device) == [1])
        receive(&device, 3 + held)
        #expect(told(&device) == Array(3...3 + held))
        receive(&device, 2)
        #expect(told(&device) == [2])
    }

    @Test func streamsAreBoundedAndWhatAForgottenOneHeldIsTold() {
        var device = Device.online()
        let most = ClientMachine.messageBounds.streams
        for number in 0..<most + 3 {
            receive(&device, 5, "m\(number)", from: UserID("user-\(number)")!)
            device.pass(1)
        }
        #expect(device.machine.messageStreams.count == most)
        #expect(told(&device).count == 3)
    }

    /// A token that names no device lets its user send as any number of devices.
    @Test func whoHasManyDevicesDisplacesTheOwnStreamsAlone() {
        var device = Device.online()
        receive(&device, 1, "c1", from: carol)
        receive(&device, 3, "c3", from: carol)
        _ = told(&device)
        for number in 0..<400 {
            device.pass(1)
            receive(&device, 3, "m\(number)", on: "device-\(number / 5)", stream: "stream-\(number)")
        }
        #expect(device.machine.messageStreams.count == ClientMachine.messageBounds.streams)
        _ = told(&device)
        receive(&device, 2, "c2", from: carol)
        #expect(told(&device) == [2, 3], "the stream of the other one goes on waiting")
    }

    @Test(arguments: 1...100 as ClosedRange<UInt64>)
    func whateverIsLateByLessThanTheGapComesInOrderAndOnce(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var device = Device.online()
        receive(&device, 1)
        var arrivals: [(at: Int64, seq: Int64)] = []
        for seq in 2...60 as ClosedRange<Int64> {
            for _ in 0...Int(random.next() % 2) {
                arrivals.append((at: seq * 20 + Int64(random.next() % 9_000), seq: seq))
            }
        }
        arrivals.sort { $0.at < $1.at }
        let start = device.now
        for (at, seq) in arrivals {
            device.pass(max(0, start + at - device.now))
            receive(&device, seq)
        }
        #expect(told(&device) == Array(1...60 as ClosedRange<Int64>))
        #expect(device.machine.messageStreams.deadline == nil)
    }

    // MARK: Sending

    private func places(_ device: Device) -> [String] {
        device.actions.compactMap { entry in
            guard case .publish(.request(let request)) = entry.action, case .message(let message) = request.body,
                let stream = message.stream, let seq = message.seq
            else { return nil }
            return "\(stream) \(seq)"
        }
    }

    private func send(_ device: inout Device, _ id: String, to user: UserID) {
        let body = Request.Body.message(.init(to: user, data: JSONText("1")!, messageID: MessageID(id)!))
        device.perform { $0.send(Request(id: RequestID(id)!, body: body), ordered: true, now: $1) }
        device.receive(
            .response(
                Response(
                    id: RequestID(id)!, outcome: .answer(.message(MessageID(id)!, time: 1, state: .delivered)))))
    }

    private func sender() -> Device {
        var configuration = ClientMachine.Configuration()
        configuration.signalStream = "mine"
        return Device.online(alice, configuration: configuration)
    }

    @Test func recipientsAreBoundedAndWhoWasForgottenIsSentAnotherStream() {
        var device = sender()
        send(&device, "first", to: bob)
        for number in 0..<MessagePlaces.recipients - 1 {
            send(&device, "a\(number)", to: UserID("user-\(number)")!)
        }
        send(&device, "second", to: bob)
        #expect(places(device).last == "mine 2", "there is room for as many")
        send(&device, "carol", to: carol)
        send(&device, "third", to: bob)
        #expect(places(device).suffix(2) == ["mine-1 1", "mine 3"], "who was written to is not forgotten")
        send(&device, "again", to: UserID("user-0")!)
        #expect(places(device).last == "mine-2 1")
    }

    @Test func withoutANameNothingIsOrdered() {
        var device = Device.online(alice)
        send(&device, "m", to: bob)
        #expect(device.sentRequests == ["m"])
        #expect(places(device).isEmpty)
    }

    @Test func aRequestThatIsRefusedHereTakesNoPlace() {
        var configuration = ClientMachine.Configuration()
        configuration.signalStream = "mine"
        configuration.requests = 1
        var device = Device.online(alice, configuration: configuration)
        let body = Request.Body.message(.init(to: bob, data: JSONText("1")!, messageID: MessageID("a")!))
        device.perform { $0.send(Request(id: RequestID("a")!, body: body), ordered: true, now: $1) }
        device.perform { $0.send(Request(id: RequestID("b")!, body: body), ordered: true, now: $1) }
        #expect(device.outcomes == ["b tooManyRequests"])
        device.respond("a", .tooLarge)
        send(&device, "c", to: bob)
        #expect(places(device) == ["mine 1", "mine 1"])
    }
}
