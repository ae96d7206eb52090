import BellwireClient
import BellwireMosquitto
import Synchronization
import TemporaryFiles
import Testing

/// The behaviour that the SDK expects of a transport, over a real broker.
@Suite struct TransportTests {
    let directory = try! TemporaryDirectory()

    @Test(arguments: Carrier.allCases) func whatIsPublishedArrives(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let device = try await Device(carrier.transport(broker.port), topics: ["a/1", "a/2"])
        try device.publish("one", "a/1")
        try device.publish("nobody's", "a/3")
        try device.publish("two", "a/2")
        #expect(try await device.received(2) == ["one", "two"])
        await device.connection.close()
        #expect(device.closed?.kind == .lost(isClean: false))
    }

    @Test(arguments: Carrier.allCases, [BellwireQoS.atMostOnce, .atLeastOnce])
    func messagesHaveTheQoSOfTheConnectionAndTheirExpiry(_ carrier: Carrier, _ qos: BellwireQoS) async throws {
        let packets = Mutex<[[UInt8]]>([])
        let listener = try Listener { peer in
            _ = peer.packet()
            peer.send([0x20, 3, 0, 0, 0])
            var packet = peer.packet()
            // A transport of these sends PINGREQ first.
            if packet.first == 0xC0 { packet = peer.packet() }
            packets.withLock { $0.append(packet) }
            if qos == .atLeastOnce { peer.send([0x40, 2] + packet.dropFirst(5).prefix(2)) }
            _ = peer.packet()
        }
        let device = try await Device(carrier.transport(listener.port), qos: qos)
        try device.publish("x", "t")
        try await eventually { packets.withLock { !$0.isEmpty } }
        // The packet has a packet id with QoS 1, and the property Message Expiry Interval, 30 s.
        let expiry: [UInt8] = [5, 2, 0, 0, 0, 30]
        let expected: [UInt8] =
            qos == .atMostOnce ? [0x30, 10, 0, 1, 0x74] + expiry : [0x32, 12, 0, 1, 0x74, 0, 1] + expiry
        #expect(packets.withLock { $0[0] } == expected + [0x78])
        await device.connection.close()
    }

    @Test(arguments: Carrier.allCases) func messagesKeepTheirOrder(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let device = try await Device(carrier.transport(broker.port), topics: ["t"])
        // The messages are more than may go without an acknowledgment.
        let texts = (0..<500).map(String.init)
        for text in texts { try device.publish(text, "t") }
        #expect(try await device.received(texts.count) == texts)
        await device.connection.close()
    }

    @Test(arguments: Carrier.allCases) func theWillIsPublishedWhenTheConnectionIsCut(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let relay = try Listener.relay(to: broker.port)
        let watcher = try await Device(Carrier.own.transport(broker.port), "watcher", topics: ["will"])
        let device = try await Device(carrier.transport(relay.port), will: .init(topic: "will", payload: [0x77]))
        relay.cut()
        #expect(try await watcher.received(1) == ["w"])
        #expect(try await device.closing() == .lost(isClean: true))
        await watcher.connection.close()
    }

    @Test(arguments: Carrier.allCases) func closingLosesNothingAndHasNoWill(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let watcher = try await Device(Carrier.own.transport(broker.port), "watcher", topics: ["will", "t"])
        let will = BellwireOutgoingMessage(topic: "will", payload: [0x77])
        // The device's own messages come back, so that there are unread bytes when the device goes.
        let device = try await Device(carrier.transport(broker.port), topics: ["t"], will: will)
        let texts = (0..<300).map(String.init)
        for text in texts { try device.publish(text, "t") }
        await device.connection.close()
        #expect(device.closed != nil)
        let another = try await Device(carrier.transport(broker.port), "another")
        try another.publish("the last", "t")
        #expect(try await watcher.received(texts.count + 1) == texts + ["the last"])
        for device in [another, watcher] { await device.connection.close() }
    }

    @Test(arguments: Carrier.allCases) func aSecondConnectionTakesThePlaceOfTheFirst(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let first = try await Device(carrier.transport(broker.port))
        let second = try await Device(carrier.transport(broker.port), topics: ["t"])
        // mosquitto 2.0 does not say why.
        let kind = try await first.closing()
        #expect(kind == .takenOver || kind == .lost(isClean: true), "\(String(describing: kind))")
        try second.publish("here", "t")
        #expect(try await second.received(1) == ["here"])
        await second.connection.close()
    }

    @Test(arguments: Carrier.allCases, [(UInt8(0x8E), BellwireTransportError.Kind.takenOver), (0x98, .ended)])
    func aBrokerMaySayWhyItEndsTheConnection(
        _ carrier: Carrier, _ reason: (code: UInt8, kind: BellwireTransportError.Kind)
    ) async throws {
        let listener = try Listener { peer in
            _ = peer.packet()
            peer.send([0x20, 3, 0, 0, 0])
            _ = peer.packet()
            peer.send([0xE0, 1, reason.code])
            _ = peer.packet()
        }
        let device = try await Device(carrier.transport(listener.port))
        try device.publish("here", "t")
        #expect(try await device.closing() == reason.kind)
    }

    @Test(arguments: Carrier.allCases) func afterALossMessagesAreDropped(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let device = try await Device(carrier.transport(broker.port))
        broker.crash()
        _ = try await device.closing()
        try device.publish("late", "t")
        device.connection.probe()
        await device.connection.close()
    }

    @Test(arguments: Carrier.allCases) func aMessageBeyondWhatTheBrokerTakesIsRefusedAlone(
        _ carrier: Carrier
    ) async throws {
        let broker = try Broker(directory, ["allow_anonymous true", "max_packet_size 2000"])
        let device = try await Device(carrier.transport(broker.port), topics: ["t"])
        let error = #expect(throws: BellwireTransportError.self) {
            try device.publish(String(repeating: "x", count: 2_000), "t")
        }
        #expect(error?.kind == .invalid)
        let fits = String(repeating: "x", count: 1_980)
        try device.publish(fits, "t")
        #expect(try await device.received(1) == [fits])
        await device.connection.close()
    }

    @Test(arguments: Carrier.allCases) func aBrokerThatHangsIsNoticedAndHoldsNobodyUp(
        _ carrier: Carrier
    ) async throws {
        let broker = try Broker(directory)
        let hung = try await Device(carrier.transport(broker.port), "hung")
        let closing = try await Device(carrier.transport(broker.port), "closing")
        broker.freeze()
        try closing.publish("kept", "t")
        let start = ContinuousClock.now
        await closing.connection.close()
        #expect(ContinuousClock.now - start < .milliseconds(2_500))
        try hung.publish("a question", "t")
        hung.connection.probe()
        #expect(try await hung.closing() == .lost(isClean: false))
    }

    /// Messages that the device publishes meanwhile do not put the end off.
    @Test(arguments: Carrier.allCases, [BellwireQoS.atMostOnce, .atLeastOnce])
    func aBrokerThatAnswersNoProbeIsGivenUpAlsoByADeviceThatPublishes(
        _ carrier: Carrier, _ qos: BellwireQoS
    ) async throws {
        let broker = try Broker(directory)
        let device = try await Device(carrier.transport(broker.port), qos: qos)
        broker.freeze()
        device.connection.probe()
        let start = ContinuousClock.now
        while device.closed == nil, ContinuousClock.now - start < .seconds(15) {
            try device.publish("again", "t")
            try await Task.sleep(for: .milliseconds(500))
        }
        #expect(device.closed?.kind == .lost(isClean: false))
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test(arguments: Carrier.allCases) func nothingFollowsTheGoodbye(_ carrier: Carrier) async throws {
        let packets = Mutex<[[UInt8]]>([])
        let listener = try Listener { peer in
            _ = peer.packet()
            peer.send([0x20, 3, 0, 0, 0])
            var packet = peer.packet()
            while packet.first == 0xC0 || packet.first == 0x30 { packet = peer.packet() }
            // DISCONNECT has come. The broker is slow to close, and this message at QoS 1 was on its way.
            peer.send([0x32, 7, 0, 1, 0x74, 0, 9, 0, 0x78])
            while !packet.isEmpty {
                packets.withLock { [packet] in $0.append(packet) }
                packet = peer.packet()
            }
        }
        let device = try await Device(carrier.transport(listener.port))
        try device.publish("x", "t")
        let start = ContinuousClock.now
        await device.connection.close()
        #expect(ContinuousClock.now - start < .milliseconds(2_500))
        try await eventually { packets.withLock { !$0.isEmpty } }
        #expect(packets.withLock(\.self) == [[0xE0, 0]])
    }

    @Test(arguments: Carrier.allCases) func messagesThatWaitAreBounded(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let device = try await Device(carrier.transport(broker.port))
        broker.freeze()
        let error = #expect(throws: BellwireTransportError.self) {
            // The messages are more than the kernel takes for a socket.
            for _ in 0...20_000 { try device.publish(String(repeating: "x", count: 1_000), "t") }
        }
        #expect(error?.kind == .invalid)
        await device.connection.close()
    }
}
