import Basics
import Testing

@testable import MQTTProtocol

/// The client's side of a connection as bytes in and bytes out. `MQTTConnectionTests` has the rest, over sockets.
@Suite struct MQTTSessionTests {
    private let session: MQTTSession

    init() {
        var configuration = MQTTSession.Configuration(
            broker: BrokerAddress(host: "broker", port: 1883), clientID: "device")
        configuration.keepAlive = 10
        configuration.longestAnswer = 4_000
        session = MQTTSession(configuration)
    }

    /// The packets that were sent since the last call, by their types.
    private func sent(at now: Int64) -> [UInt8] {
        session.isFlushing()
        var types: [UInt8] = []
        let bytes = session.output.read { Array($0) }
        session.output.take(bytes.count)
        if !bytes.isEmpty { session.hasSent(now) }
        session.hasFlushed(now)
        var rest = bytes[...]
        while let head = rest.first {
            // All packets of these tests are shorter than 128 bytes.
            types.append(head >> 4)
            rest = rest.dropFirst(2 + Int(rest[rest.startIndex + 1]))
        }
        return types
    }

    private func receive(_ bytes: [UInt8], at now: Int64) throws(MQTTError) {
        session.input.append { $0 += bytes }
        session.hasReceived(now)
        try session.take()
    }

    private func connect() throws {
        session.begin(0)
        #expect(sent(at: 0) == [1])
        try receive([0x20, 3, 0, 0, 0], at: 0)
        #expect(session.state == .connected)
    }

    @Test func aPacketMayArriveByteByByte() throws {
        try connect()
        for byte: UInt8 in [0x30, 6, 0, 1, 0x74, 0, 0x68, 0x69] { try receive([byte], at: 1) }
        #expect(session.takeMessages().map(\.payload) == [Array("hi".utf8)])
    }

    @Test func theClientAsksAfterTheKeepaliveAndGivesUpWithoutAnAnswer() throws {
        try connect()
        try session.keepAlive(9_999)
        #expect(sent(at: 9_999) == [])
        try session.keepAlive(10_000)
        #expect(session.isUrgent)
        #expect(sent(at: 10_000) == [12])
        try session.keepAlive(14_000)
        let error = #expect(throws: MQTTError.self) { try session.keepAlive(14_001) }
        #expect(error?.message == "the broker no longer answers")
        #expect(session.state == .closed(reason: "the broker no longer answers"))
    }

    @Test func anAnswerEndsTheWait() throws {
        try connect()
        #expect(session.ask(5_000))
        #expect(!session.ask(5_001), "one question at a time")
        #expect(sent(at: 5_000) == [12])
        try receive([0xD0, 0], at: 6_000)
        #expect(!session.isAsking)
        try session.keepAlive(14_999)
        #expect(sent(at: 14_999) == [])
    }

    @Test func messagesWaitForTheRoomThatTheBrokerGives() throws {
        session.begin(0)
        _ = sent(at: 0)
        // The receive maximum is 1.
        try receive([0x20, 6, 0, 0, 3, 0x21, 0, 1], at: 0)
        for _ in 0..<3 { try session.publish(MQTTMessage(topic: "t", payload: [])) }
        #expect(sent(at: 1) == [3])
        #expect(session.backlog == 3)
        try receive([0x40, 2, 0, 1], at: 2)
        #expect(session.isUrgent)
        #expect(sent(at: 2) == [3])
        try receive([0x40, 2, 0, 2], at: 3)
        #expect(sent(at: 3) == [3])
        try receive([0x40, 2, 0, 3], at: 4)
        #expect(session.backlog == 0)
    }

    @Test func theFirstReasonOfTheEndStands() throws {
        try connect()
        session.close("first")
        session.close("second")
        #expect(session.lost().message == "first")
        #expect(throws: MQTTError.self) { try session.publish(MQTTMessage(topic: "t", payload: [])) }
    }
}
