import SignalingProtocol
import Testing
import Tokens

@testable import BrokerAuth

/// A client that does not read its messages.
@Suite struct BacklogTests {
    private let message = 10_000

    /// Delivers this number of messages to a socket that takes this share of each message. Returns how many messages
    /// were delivered.
    private func deliver(_ count: Int, _ fixture: Fixture, _ connection: Int = 1, taking share: Double) -> Int {
        var written = 0.0
        return (0..<count).count { _ in
            let isDelivered = fixture.auth.delivers(
                message, to: connection, now: { now },
                socket: { SocketProgress(written: UInt64(written), isDrained: share >= 1) })
            written += Double(message) * share
            return isDelivered
        }
    }

    @Test func whoReadsGetsEverything() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, "alice")
        #expect(deliver(10_000, fixture, taking: 1) == 10_000)
        #expect(deliver(10_000, fixture, taking: 1.1) == 10_000, "with TLS a socket is written more than is delivered")
    }

    @Test func whoDoesNotReadIsPutOffAtTheBound() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, "alice")
        let delivered = deliver(10_000, fixture, taking: 0)
        #expect(abs(delivered * message - Int(BrokerLimits.backlogPerDevice)) <= 2 * message + Int(Backlog.lookEvery))
        #expect(!fixture.may(.receive, "bellwire/v1/down/alice"))
        #expect(fixture.auth.takeDue(now: now) == ended(1, "alice/phone", .slowReader))
        #expect(fixture.auth.takeDue(now: now + 200) == [.disconnect(clientID: "alice/phone", 1, .slowReader)])
    }

    @Test func whoReadsTooSlowlyIsPutOffAsWell() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, "alice")
        let delivered = deliver(10_000, fixture, taking: 0.9)
        #expect(abs(Double(delivered * message) / 10 - Double(BrokerLimits.backlogPerDevice)) < 200_000)
    }

    @Test func whatNeverReachesTheSocketIsForgottenWhileItIsDrained() {
        var backlog = Backlog()
        var time: Int64 = 0
        // A message a second that the broker drops by itself: 3 KB.
        for _ in 0..<100_000 {
            let isWithin = backlog.add(
                3_000, limit: BrokerLimits.backlogPerDevice, now: { time },
                socket: { SocketProgress(written: 500, isDrained: true) })
            #expect(isWithin)
            time += 1_000
        }
        #expect(backlog.waiting < 200_000)
    }

    @Test func aBackendHasMoreRoomAndACoordinatorIsTheBrokersOwn() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "backend", try fixture.token("backend", role: .server))
        try fixture.connect(2, "c", try fixture.token("c", role: .coordinator))
        let server = deliver(20_000, fixture, 1, taking: 0)
        #expect(server * message > Int(BrokerLimits.backlogPerDevice) * 10)
        #expect(server < 20_000)
        #expect(deliver(20_000, fixture, 2, taking: 0) == 20_000)
    }

    @Test func withoutSightOfTheSocketNobodyIsPutOff() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, "alice")
        #expect(
            (0..<10_000).allSatisfy { _ in
                fixture.auth.delivers(message, to: 1, now: { now }, socket: { nil })
            })
    }
}
