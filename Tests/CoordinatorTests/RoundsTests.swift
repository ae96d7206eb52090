import CallCore
import CallDeciding
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// What is served together, and what waits for what (docs/protocol.md, section 1).
struct RoundsTests {
    private var rounds = Rounds()

    private func device(_ name: String) -> DeviceAddress {
        DeviceAddress(userID: UserID(name)!, deviceID: DeviceID("phone")!)
    }

    private mutating func presence(_ device: DeviceAddress) {
        rounds.append(
            PresenceChange(session: DeviceSession(device, id: "s"), status: .online, tokenExpiresAt: nil))
    }

    private mutating func ack(_ name: String, _ callID: String) {
        rounds.append(.call(CallID(callID)!, .ack(device(name), revision: 1)), from: device(name))
    }

    private func received(_ name: String, _ body: Request.Body) -> ReceivedRequest {
        ReceivedRequest(
            device: device(name), request: Request(id: RequestID("r")!, body: body), correlationData: nil)
    }

    private mutating func end(_ name: String, _ callID: String) {
        let request = received(name, .end(.init(callID: CallID(callID)!)))
        rounds.append(.call(CallID(callID)!, .request(request)), from: device(name))
    }

    private mutating func query(_ name: String) {
        rounds.append(.user(received(name, .query(.init()))), from: device(name))
    }

    private func served(_ round: Round) -> String {
        (round.presence.map { "\($0.session.device.userID)" } + round.calls.works.map { "\($0.id):\($0.events.count)" }
            + round.requests.map { "\($0.device.userID)?" }).joined(separator: " ")
    }

    @Test mutating func whatDifferentUsersSendIsOneRound() {
        for number in 0..<20 {
            presence(device("u\(number)"))
            ack("u\(number)", "c\(number % 2)")
            query("u\(number)")
        }
        #expect(rounds.all.count == 1)
        #expect(rounds.all[0].calls.works.map(\.events.count) == [10, 10])
        #expect(Set(rounds.all[0].senders).count == 20)
    }

    @Test mutating func whatOneUserSendsKeepsItsOrder() {
        query("alice")
        presence(device("alice"))
        ack("alice", "c")
        presence(device("alice"))
        query("alice")
        ack("alice", "d")
        #expect(rounds.all.map(served) == ["alice?", "alice c:1", "alice alice?", "d:1"])
    }

    @Test mutating func nobodyWaitsForWhatOthersSend() {
        for _ in 0..<30 {
            query("flooder")
            ack("flooder", "x")
        }
        end("alice", "c")
        query("bob")
        #expect(rounds.all.count == 31)
        #expect(rounds.all[0].calls.works.map(\.id.string) == ["c"])
        #expect(rounds.all[0].requests.map(\.device) == [device("flooder"), device("bob")])
    }

    @Test mutating func requestsOnOneCallAreServedTogetherAndOnTwoOneAfterTheOther() {
        end("alice", "c")
        end("alice", "c")
        ack("alice", "d")
        end("alice", "d")
        end("bob", "d")
        ack("alice", "c")
        #expect(rounds.all.map(served) == ["c:2 d:2", "d:1 c:1"])
    }

    @Test mutating func devicesOfOneUserComeTogether() {
        presence(device("alice"))
        presence(DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("tablet")!))
        #expect(rounds.all.map(served) == ["alice alice"])
    }

    @Test mutating func whoSentNothingUsefulIsAliveAllTheSame() {
        presence(device("alice"))
        rounds.append(nil, from: device("alice"))
        rounds.append(nil, from: device("bob"))
        #expect(rounds.all.map(\.senders) == [[device("alice"), device("bob")]])
    }
}
