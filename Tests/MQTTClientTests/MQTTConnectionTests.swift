import Glibc
import Support
import Testing

@testable import MQTTClient
@testable import MQTTProtocol

/// A connection against a broker that does as a test says. Tests/IntegrationTests tests the connection from outside,
/// against a real broker.
struct MQTTConnectionTests {
    let broker = ScriptedBroker()
    let hello = MQTTMessage(topic: "t", payload: [1])

    /// Polls until `condition` holds.
    private func poll(_ connection: MQTTConnection, until condition: () -> Bool) throws -> [MQTTMessage] {
        var messages: [MQTTMessage] = []
        for _ in 0..<500 where !condition() { messages += try connection.poll(milliseconds: 10) }
        #expect(condition())
        return messages
    }

    /// The error with which a poll ends.
    private func failure(_ connection: MQTTConnection) -> MQTTError? {
        do {
            for _ in 0..<500 { _ = try connection.poll(milliseconds: 10) }
            return nil
        } catch {
            return error
        }
    }

    @Test func nobodyListens() throws {
        let port = broker.port
        let connection = try MQTTConnection(
            .init(broker: BrokerAddress(host: "127.0.0.2", port: port), clientID: "c"))
        #expect { try connection.connect() } throws: { error in
            (error as? MQTTError)?.kind == .unreachable && "\(error)".contains("Connection refused")
        }
    }

    @Test func aRefusalSaysWhy() throws {
        let connection = try broker.connecting()
        broker.send([0x20, 3, 0, 0x87, 0])
        let error = failure(connection)
        #expect(error?.kind == .refused)
        #expect(error?.message == "the broker refused: Not authorized")
        #expect(connection.state == .closed(reason: "the broker refused: Not authorized"))
    }

    @Test func messagesThatCameTogetherAreAcknowledgedTogether() throws {
        let connection = try broker.connected()
        broker.send([UInt8]((1...3).map { [0x32, 6, 0, 1, 0x74, 0, $0, 0] }.joined()))
        #expect(try connection.poll(milliseconds: 1_000).count == 3)
        #expect(broker.isQuiet, "acknowledgments go out with what is published, or with the next poll")
        _ = try connection.poll(milliseconds: 0)
        #expect(try (1...3).map { _ in try broker.packet() } == (1...3).map { [0x40, 2, 0, $0] })
    }

    @Test func whatIsPublishedTogetherGoesOutAtTheEnd() throws {
        let connection = try broker.connected()
        try connection.together { () throws(MQTTError) in
            try connection.publish(hello)
            try connection.publish(hello)
            #expect(broker.isQuiet)
        }
        #expect(try broker.packet()?.first == 0x32)
        #expect(try broker.packet()?.first == 0x32)
    }

    @Test func theBrokersWindowIsKept() throws {
        // The broker takes two messages at a time.
        let connection = try broker.connected([0x21, 0, 2])
        let identifiers = try (0..<4).map { try connection.publish(MQTTMessage(topic: "t", payload: [UInt8($0)])) }
        #expect(connection.backlog == 4)
        #expect(try (0..<2).map { _ in try broker.packet()?.last } == [0, 1])
        #expect(broker.isQuiet)
        broker.send([0x40, 2, 0, UInt8(identifiers[1])])
        _ = try poll(connection) { connection.backlog == 3 }
        #expect(try broker.packet()?.last == 2)
        #expect(broker.isQuiet)
        for identifier in [identifiers[0], identifiers[2]] { broker.send([0x40, 2, 0, UInt8(identifier)]) }
        _ = try poll(connection) { connection.backlog == 1 }
        #expect(try broker.packet()?.last == 3)
        broker.send([0x40, 2, 0, UInt8(identifiers[3])])
        _ = try poll(connection) { connection.backlog == 0 }
    }

    @Test func whatIsAwaitedIsToldWhenTheBrokerHasIt() throws {
        let connection = try broker.connected()
        let taken = try connection.publish(hello, isAwaited: true)
        let refused = try connection.publish(hello, isAwaited: true)
        try connection.publish(hello)
        #expect(connection.takeAnswered().isEmpty)
        broker.send([0x40, 3, 0, UInt8(refused), 0x97, 0x40, 2, 0, UInt8(taken)])
        _ = try poll(connection) { connection.backlog == 1 }
        #expect(
            connection.takeAnswered().map { "\($0.identifier) \($0.isTaken)" } == ["\(refused) false", "\(taken) true"])
        #expect(connection.takeAnswered().isEmpty)
    }

    @Test func refusalsAreCountedAndThoseForWantOfARightInARow() throws {
        let connection = try broker.connected()
        func answer(_ reasons: [UInt8]) throws {
            for reason in reasons {
                broker.send([0x40, 3, 0, UInt8(try connection.publish(hello)), reason])
                _ = try poll(connection) { connection.backlog == 0 }
            }
        }
        try answer([0x87, 0x97, 0x87])
        #expect(connection.unauthorizedInARow == 2)
        #expect(connection.takeRefused() == ["Not authorized": 2, "Quota exceeded": 1])
        #expect(connection.takeRefused().isEmpty)
        try answer([0x10])
        #expect(connection.unauthorizedInARow == 0, "that nobody listens is no refusal")
        #expect(connection.takeRefused().isEmpty)
    }

    @Test func aPublicationBeyondWhatTheBrokerTakesIsRefusedAndNothingElse() throws {
        // The broker takes packets of 64 bytes.
        let connection = try broker.connected([0x27, 0, 0, 0, 64])
        #expect { try connection.publish(MQTTMessage(topic: "t", payload: [UInt8](repeating: 0, count: 64))) } throws: {
            ($0 as? MQTTError)?.kind == .invalid
        }
        #expect { try connection.publish(MQTTMessage(topic: "a/#", payload: [])) } throws: {
            ($0 as? MQTTError)?.kind == .invalid
        }
        #expect(connection.backlog == 0)
        try connection.publish(hello)
        #expect(try broker.packet()?.last == 1)
    }

    /// MQTT 5, section 3.1.2.11.4 holds for every packet.
    @Test func aSubscriptionBeyondWhatTheBrokerTakesIsRefusedAndNothingElse() throws {
        // The broker takes packets of 64 bytes: two bytes of the fixed header, three before the filter's length, a byte
        // after the filter.
        let connection = try broker.connected([0x27, 0, 0, 0, 64])
        let longest = String(repeating: "a", count: 64 - 8)
        for subscribe in [connection.subscribeOnce, connection.unsubscribe] {
            #expect { try subscribe(longest + "ab") } throws: { ($0 as? MQTTError)?.kind == .invalid }
        }
        #expect(throws: MQTTError.self) { try connection.subscribeOnce(longest + "a") }
        _ = try connection.subscribeOnce(longest)
        #expect(try broker.packet()?.count == 64)
        _ = try connection.unsubscribe(longest + "a")
        #expect(try broker.packet()?.count == 64)
        #expect(broker.isQuiet)
    }

    @Test func aBrokerThatTakesNoAcknowledgmentIsLeft() throws {
        let connection = try broker.connecting()
        broker.send([0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 3])
        #expect(failure(connection)?.message == "the broker takes no packet of more than 3 bytes")
    }

    @Test func ofAFloodOneBatchIsReadAtATimeAndTheRestWithoutWaiting() throws {
        let connection = try broker.connected()
        let payload = [UInt8](repeating: 7, count: 20)
        for identifier in 1...600 { broker.sendMessage(identifier, payload: payload) }
        var batches: [Int] = []
        while batches.reduce(0, +) < 600 { batches.append(try connection.poll(milliseconds: 2_000).count) }
        #expect(batches.allSatisfy { $0 <= 256 })
        let began = SystemClock.boot.milliseconds
        #expect(try connection.poll(milliseconds: 20).isEmpty)
        #expect(SystemClock.boot.milliseconds - began >= 19, "there is nothing left to take without waiting")
    }

    @Test func aMessageThatComesInPiecesIsOne() throws {
        let connection = try broker.connected()
        var bytes: [UInt8] = []
        _ = bytes.appendPublish(
            MQTTMessage(topic: "t", payload: [UInt8](repeating: 5, count: 300_000)), qos: .atLeastOnce, identifier: 1,
            maxBytes: .max)
        var messages: [MQTTMessage] = []
        for start in stride(from: 0, to: bytes.count, by: 50_001) {
            broker.send(Array(bytes[start..<min(start + 50_001, bytes.count)]))
            messages += try connection.poll(milliseconds: 1_000)
        }
        while messages.isEmpty { messages += try connection.poll(milliseconds: 1_000) }
        #expect(messages.map(\.payload.count) == [300_000])
    }

    @Test func aSubscriptionIsAnsweredOrRefused() throws {
        let connection = try broker.connected()
        let granted = try connection.subscribe("a", qos: .atLeastOnce)
        _ = try broker.packet()
        broker.send([0x90, 4, 0, UInt8(granted), 0, 1])
        _ = try poll(connection) { connection.acknowledged.contains(granted) }
        let refused = try connection.subscribe("b", qos: .atLeastOnce)
        broker.send([0x90, 4, 0, UInt8(refused), 0, 0x87])
        #expect(failure(connection)?.kind == .refused)
    }

    @Test(
        arguments: [
            ([0xE0, 1, 0x8E], "the broker disconnects: Session taken over"), ([0x10, 0], "the broker sent no MQTT 5"),
        ] as [([UInt8], String)])
    func theConnectionEndsAndSaysWhy(_ bytes: [UInt8], _ reason: String) throws {
        let connection = try broker.connected()
        broker.send(bytes)
        broker.hangUp()
        let error = failure(connection)
        #expect(error?.kind == .lost)
        #expect(error?.message.hasPrefix(reason) == true)
        #expect(throws: MQTTError.self) { try connection.publish(hello) }
    }

    @Test func aBrokerThatHangsUpIsGone() throws {
        let connection = try broker.connected()
        broker.hangUp()
        #expect(failure(connection)?.kind == .lost)
    }

    @Test func aSilentBrokerIsAskedAndThenGivenUp() throws {
        // The broker may shorten the time.
        let connection = try broker.connected([0x13, 0, 1])
        let began = SystemClock.boot.milliseconds
        let error = failure(connection)
        #expect(error?.message == "the broker no longer answers")
        #expect((1_900...3_000).contains(SystemClock.boot.milliseconds - began))
        #expect(try broker.packet() == [0xC0, 0])
    }

    /// MQTT 5, section 3.2.2.3.14, with section 3.1.2.10: 0 turns the keepalive off.
    @Test func aServerKeepAliveOf0IsOff() throws {
        let connection = try broker.connected([0x13, 0, 0]) { $0.keepAlive = 1 }
        let began = SystemClock.boot.milliseconds
        while SystemClock.boot.milliseconds - began < 2_200 { _ = try connection.poll(milliseconds: 100) }
        #expect(broker.isQuiet && connection.state == .connected)
    }

    @Test func theOwnerMayAskBeforeTheKeepaliveDoes() throws {
        let connection = try broker.connected { $0.keepAlive = 60 }
        for _ in 0..<3 { try connection.ask() }
        #expect(try broker.packet() == [0xC0, 0])
        #expect(broker.isQuiet, "one question at a time")
        broker.send([0xD0, 0])
        let until = SystemClock.boot.milliseconds + 200
        while SystemClock.boot.milliseconds < until { _ = try connection.poll(milliseconds: 50) }
        #expect(broker.isQuiet && connection.state == .connected)
        try connection.ask()
        #expect(try broker.packet() == [0xC0, 0])
    }

    /// The wait for the answer is bounded, however long the keepalive is.
    @Test func aBrokerThatIsAskedAnswersInTimeOrIsGivenUp() throws {
        let connection = try broker.connected {
            $0.keepAlive = 60
            $0.longestAnswer = 300
        }
        try connection.ask()
        let began = SystemClock.boot.milliseconds
        #expect(failure(connection)?.message == "the broker no longer answers")
        #expect((290...1_000).contains(SystemClock.boot.milliseconds - began))
    }

    @Test func aBrokerThatAnswersIsKept() throws {
        let connection = try broker.connected([0x13, 0, 1])
        for _ in 0..<2 {
            _ = try poll(connection) { !broker.isQuiet }
            #expect(try broker.packet() == [0xC0, 0])
            broker.send([0xD0, 0])
        }
        #expect(connection.state == .connected)
    }

    @Test func goodbyeComesAfterEverythingElse() throws {
        let connection = try broker.connected()
        try connection.publish(hello)
        connection.disconnect(flushingFor: 50)
        #expect(try broker.packet()?.first == 0x32)
        #expect(try broker.packet() == [0xE0, 0])
        #expect(try broker.packet() == nil)
        #expect(connection.state == .closed(reason: "disconnected"))
    }

    @Test func anotherThreadEndsTheWait() throws {
        let connection = try broker.connected()
        final class Waker: @unchecked Sendable {
            // Only `wake()` is called by the other thread.
            let connection: MQTTConnection
            init(_ connection: MQTTConnection) { self.connection = connection }
        }
        var thread = pthread_t()
        let context = Unmanaged.passRetained(Waker(connection)).toOpaque()
        pthread_create(
            &thread, nil,
            { context in
                let waker = Unmanaged<Waker>.fromOpaque(context!).takeRetainedValue()
                usleep(50_000)
                for _ in 0..<3 { waker.connection.wake() }
                return nil
            }, context)
        let began = SystemClock.boot.milliseconds
        #expect(try connection.poll(milliseconds: 5_000).isEmpty)
        #expect(SystemClock.boot.milliseconds - began < 2_000)
        pthread_join(thread, nil)
    }

    /// Messages that a broker does not read wait, and are counted; none is cut off or comes in another order.
    @Test(arguments: [QoS.atMostOnce, .atLeastOnce])
    func aBrokerThatDoesNotReadIsWaitedFor(_ qos: QoS) throws {
        let connection = try broker.connected()
        // The messages are more than the sockets hold.
        let payload = [UInt8](repeating: 1, count: 100_000)
        for number in 0..<100 {
            try connection.publish(MQTTMessage(topic: "t/\(number)", payload: payload, qos: qos))
        }
        // At QoS 0 the messages that the sockets hold have left.
        #expect(qos == .atLeastOnce ? connection.backlog == 100 : (1..<100).contains(connection.backlog))
        let packet = payload.count + 2 + 4 + (qos == .atMostOnce ? 0 : 2) + 1 + 4
        var expected: [UInt8] = []
        for number in 0..<100 {
            _ = expected.appendPublish(
                MQTTMessage(topic: "t/\(number)", payload: payload), qos: qos, identifier: UInt16(number + 1),
                maxBytes: .max)
        }
        var received: [UInt8] = []
        while received.count < expected.count {
            received += try broker.read(upTo: packet)
            _ = try connection.poll(milliseconds: 0)
        }
        #expect(received == expected)
        #expect(connection.backlog == (qos == .atMostOnce ? 0 : 100))
    }

    @Test func aBrokerThatTakesQoS0AloneIsSentThat() throws {
        let connection = try broker.connected([0x24, 0])
        let identifier = try connection.publish(hello, isAwaited: true)
        #expect(try broker.packet()?.first == 0x30)
        #expect(connection.backlog == 0)
        #expect(connection.takeAnswered().map(\.identifier) == [identifier])
    }

    @Test func identifiersInUseAreNotGivenAgain() throws {
        let connection = try broker.connected()
        let first = try connection.publish(hello)
        let subscription = try connection.subscribe("a", qos: .atLeastOnce)
        for number in 0..<65_533 {
            try connection.publish(MQTTMessage(topic: "t", payload: [], qos: .atMostOnce))
            if number % 1_000 == 0 { _ = try broker.read(upTo: 1_000_000) }
        }
        let next = try connection.publish(hello)
        #expect(![first, subscription].contains(next))
    }

    /// A message before the answer to CONNECT, a second answer, a message of QoS 1 without an identifier.
    @Test(
        arguments: [
            (false, [0x30, 4, 0, 1, 0x74, 0]), (true, [0x20, 3, 0, 0, 0]), (true, [0x32, 6, 0, 1, 0x74, 0, 0, 0]),
            (false, [0x20, 6, 0, 0, 3, 0x21, 0, 0]), (false, [0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 0]),
        ] as [(Bool, [UInt8])])
    func aBrokerThatBreaksTheRulesIsLeft(_ isConnected: Bool, _ bytes: [UInt8]) throws {
        let connection = try isConnected ? broker.connected() : broker.connecting()
        broker.send(bytes)
        #expect(failure(connection)?.message.hasPrefix("the broker sent no MQTT 5") == true)
    }

    /// The broker has said why it hangs up, and the next publication tells its caller the reason.
    @Test func aPublicationThatFailsSaysWhy() throws {
        let connection = try broker.connected()
        broker.send([0xE0, 1, 0x8E])
        broker.hangUp()
        var message = ""
        for _ in 0..<100 where message.isEmpty {
            do {
                try connection.publish(MQTTMessage(topic: "t", payload: [UInt8](repeating: 0, count: 1_000)))
            } catch {
                message = "\(error)"
            }
        }
        #expect(message == "the broker disconnects: Session taken over")
    }

    /// An owner that was busy for longer than the keepalive has not made the broker silent.
    @Test func aPauseOfTheOwnerIsNoSilenceOfTheBroker() throws {
        let connection = try broker.connected([0x13, 0, 1])
        usleep(1_100_000)
        _ = try connection.poll(milliseconds: 0)
        #expect(try broker.packet() == [0xC0, 0])
        broker.send([0xD0, 0])
        usleep(1_100_000)
        _ = try connection.poll(milliseconds: 0)
        #expect(connection.state == .connected)
    }

    /// Before the handshake nothing can be sent, and the connection does not ask the system for this again and again.
    @Test func aServerThatDoesNotAnswerTLSCostsNothing() throws {
        let connection = try broker.connecting { $0.broker.isTLS = true }
        let began = SystemClock.boot.milliseconds
        for _ in 0..<3 { #expect(try connection.poll(milliseconds: 50).isEmpty) }
        #expect(SystemClock.boot.milliseconds - began >= 145)
    }

    @Test func aCertificateThatIsNoneIsNamed() {
        var configuration = MQTTConnection.Configuration(
            broker: BrokerAddress(host: "127.0.0.1", port: broker.port, isTLS: true), clientID: "c")
        configuration.certificateAuthorityFile = "/dev/null"
        #expect { try MQTTConnection(configuration).connect() } throws: { ($0 as? MQTTError)?.kind == .tls }
    }

    @Test func aServerThatSpeaksNoTLSIsRefused() throws {
        let connection = try broker.connecting { $0.broker.isTLS = true }
        broker.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        let error = failure(connection)
        #expect(error?.kind == .tls)
        #expect(error?.message.hasPrefix("TLS: ") == true)
    }
}

extension MQTTConnection {
    fileprivate func subscribeOnce(_ filter: String) throws(MQTTError) -> Int32 {
        try subscribe(filter, qos: .atLeastOnce)
    }
}
