import CallCore
import SignalingProtocol
import Testing

@testable import CallStore
@testable import Coordinator

/// Canaries, and messages for brokers that a coordinator cannot reach (docs/decisions/0033).
@Suite struct BrokerStandingTests {
    /// A standing at a broker that has accepted the connection and the subscriptions at 0.
    private func listening() -> BrokerStanding {
        var standing = BrokerStanding(0) { $0.upperBound }
        _ = standing.advance(0)
        _ = standing.connected(0)
        _ = standing.answered(0)
        return standing
    }

    private func names(_ actions: [CoordinatorLoop.Action]) -> [String] {
        actions.map { action in
            switch action {
            case .sendCanary: "canary"
            case .disconnect: "disconnect"
            case .note(let notice, _): "\(notice)"
            default: "other"
            }
        }
    }

    @Test func aBrokerThatDeliversNothingIsSuspectedAndThenGivenUp() {
        var standing = listening()
        #expect(names(standing.advance(0)) == ["canary"])
        standing.heard(isCanary: true, 0)
        #expect(names(standing.advance(2_000)) == ["canary"])
        #expect(standing.status == .serving)
        #expect(names(standing.advance(4_000)) == ["canary"])
        #expect(standing.status == .suspected)
        #expect(names(standing.advance(6_000)) == ["canary"])
        #expect(names(standing.advance(8_000)) == ["brokerDeliversNothing", "disconnect"])
        #expect(standing.status == .gone)
    }

    @Test func anyMessageCountsAsACanary() {
        var standing = listening()
        standing.heard(isCanary: true, 0)
        for time in stride(from: 0, to: 20_000, by: 2_000) {
            #expect(names(standing.advance(Int64(time))) == ["canary"])
            standing.heard(isCanary: false, Int64(time))
        }
        #expect(standing.status == .serving)
    }

    /// Access rules of an earlier version let coordinators receive no canaries.
    @Test func aBrokerThatRefusesCanariesIsNotJudgedByThem() {
        var standing = listening()
        for time in stride(from: 0, to: 20_000, by: 2_000) {
            #expect(names(standing.advance(Int64(time))) == ["canary"])
        }
        #expect(standing.status == .serving)
    }

    // MARK: Several brokers

    private func loop(_ settings: ServiceSettings = ServiceSettings()) -> CoordinatorLoop {
        var settings = settings
        settings.brokers = ["a:1883", "b:1883"]
        let store = MemoryCallStore { 1_000_000 }
        return CoordinatorLoop(CallService(store: store, settings: settings), clock: { 0 }) { $0.upperBound }
    }

    private func listen(_ loop: CoordinatorLoop, at brokers: [BrokerIndex]) -> [CoordinatorLoop.Action] {
        var actions = loop.handle(.tick, now: 0)
        for broker in brokers {
            actions += loop.handle(.connected(broker), now: 0)
            actions += loop.handle(.answered(broker), now: 0)
        }
        return actions
    }

    private func published(_ actions: [CoordinatorLoop.Action]) -> [(topic: String, final: String?, broker: Int)] {
        actions.flatMap { action -> [(topic: String, final: String?, broker: Int)] in
            guard case .publish(let messages, let broker, _) = action else { return [] }
            return messages.map { ($0.topic, $0.responseTopic, broker) }
        }
    }

    private func badMessage(at broker: BrokerIndex) -> InboundMessage {
        InboundMessage(topic: "bellwire/v1/up/alice/phone", payload: Array("?".utf8), broker: broker)
    }

    @Test func aResponseGoesToTheBrokerOfTheRequest() {
        let loop = loop()
        _ = listen(loop, at: [0, 1])
        for broker in [0, 1] {
            let answers = published(loop.handle(.received([badMessage(at: broker)]), now: 1))
            #expect(answers.map(\.topic) == ["bellwire/v1/down/alice/phone"])
            #expect(answers.map(\.broker) == [broker])
        }
    }

    @Test func aMessageForABrokerOutOfReachGoesThroughAnother() {
        let loop = loop()
        _ = listen(loop, at: [0, 1])
        _ = loop.handle(.lost(1), now: 1)
        // The message came before the connection was lost.
        let answers = published(loop.handle(.received([badMessage(at: 1)]), now: 2))
        #expect(answers.map(\.topic) == ["bellwire/v1/relay/b:1883"])
        #expect(answers.map(\.final) == ["bellwire/v1/down/alice/phone"])
        #expect(answers.map(\.broker) == [0])
    }

    @Test func aRelayedMessageIsPublishedAndNeverRelayedAgain() {
        let loop = loop()
        _ = listen(loop, at: [0, 1])
        let relayed = InboundMessage(
            topic: "bellwire/v1/relay/b:1883", payload: Array("{}".utf8), responseTopic: "bellwire/v1/down/bob/phone",
            expirySeconds: 7, broker: 0)
        let answers = published(loop.handle(.received([relayed]), now: 1))
        #expect(answers.map(\.topic) == ["bellwire/v1/down/bob/phone"])
        #expect(answers.map(\.broker) == [1])
        _ = loop.handle(.lost(1), now: 2)
        #expect(published(loop.handle(.received([relayed]), now: 3)).isEmpty)
    }

    /// Only devices get relayed messages.
    @Test(arguments: ["bellwire/v1/up/bob/phone", "other/v1/down/bob", nil])
    func aRelayLeadsNowhereElse(topic: String?) {
        let loop = loop()
        _ = listen(loop, at: [0, 1])
        let relayed = InboundMessage(
            topic: "bellwire/v1/relay/b:1883", payload: Array("{}".utf8), responseTopic: topic, broker: 0)
        #expect(published(loop.handle(.received([relayed]), now: 1)).isEmpty)
    }

    @Test func aCoordinatorTakesRelaysForTheBrokersThatItServes() {
        let loop = loop()
        func relays(_ actions: [CoordinatorLoop.Action]) -> [String] {
            actions.compactMap { action in
                switch action {
                case .subscribeRelay(let served, let broker): "+ \(served) at \(broker)"
                case .unsubscribeRelay(let served, let broker): "- \(served) at \(broker)"
                default: nil
                }
            }
        }
        #expect(relays(listen(loop, at: [0])).isEmpty)
        #expect(relays(listen(loop, at: [1])) == ["+ 1 at 0", "+ 0 at 1"])
        #expect(relays(loop.handle(.lost(1), now: 1)) == ["- 1 at 0"])
        #expect(loop.isListening)
        #expect(loop.brokers == [.serving, .gone])
    }

    @Test func aCoordinatorDrainsAtAllBrokersAndEndsOnce() {
        let loop = loop()
        _ = listen(loop, at: [0, 1])
        _ = loop.handle(.stop, now: 1)
        #expect(!loop.hasEnded)
        var actions = loop.handle(.answered(0), now: 2)
        #expect(!loop.hasEnded)
        actions += loop.handle(.answered(1), now: 3)
        actions += loop.handle(.tick, now: 4)
        #expect(loop.hasEnded)
        #expect(actions.count { if case .end = $0 { true } else { false } } == 1)
    }
}
