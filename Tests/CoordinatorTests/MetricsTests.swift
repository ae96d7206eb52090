import CallCore
import SignalingProtocol
import Support
import Testing

@testable import Coordinator

/// The text of `/metrics` and the counters behind it.
struct MetricsTests {
    private func text(_ counters: Counters = Counters(), change: (inout CoordinatorStatus.Snapshot) -> Void = { _ in })
        -> [Substring]
    {
        var snapshot = CoordinatorStatus.Snapshot()
        snapshot.counters = counters
        change(&snapshot)
        let text = metrics(snapshot)
        #expect(text.hasSuffix("\n"))
        return text.dropLast().split(separator: "\n", omittingEmptySubsequences: false)
    }

    @Test func everyMetricHasHelpAndType() {
        let lines = text()
        for metric in Counters.Metric.allCases {
            #expect(lines.count { $0.hasPrefix("# HELP \(metric.name) ") } == 1)
            #expect(lines.filter { $0 == "# TYPE \(metric.name) counter" }.count == 1)
            #expect(metric.name.hasSuffix("_total"))
        }
    }

    @Test func everyLineIsInThePrometheusFormat() throws {
        let world = World()
        world.phone("alice/phone").invite("bob")
        world.send("bellwire/v1/up/alice/phone", "{")
        let name = /bellwire_[a-z_]+/
        for line in text(world.service.counters) where !line.hasPrefix("#") {
            let sample = /bellwire_[a-z_]+(\{[a-z]+="[A-Za-z.+0-9]*"(,[a-z]+="[A-Za-z.+0-9]*")*\})? [0-9.]+/
            #expect(line.wholeMatch(of: sample) != nil, "\(line)")
            #expect(line.prefixMatch(of: name) != nil)
        }
        for line in text() where line.hasPrefix("#") {
            #expect(
                line.wholeMatch(of: /# (HELP bellwire_[a-z_]+ .+|TYPE bellwire_[a-z_]+ (counter|gauge|histogram))/)
                    != nil)
        }
    }

    @Test func aCallIsCounted() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        alice.invite("bob")
        world.pass(seconds: 1)
        bob.ack(1)
        bob.accept()
        bob.accept()
        let lines = text(world.service.counters)
        for line in [
            "bellwire_requests_total{type=\"call.invite\"} 1", "bellwire_requests_total{type=\"call.accept\"} 2",
            "bellwire_responses_total{outcome=\"ok\"} 2", "bellwire_responses_total{outcome=\"callEnded\"} 1",
            "bellwire_events_sent_total{event=\"call.invited\"} 1",
            "bellwire_events_resent_total{event=\"call.invited\"} 1", "bellwire_calls_created_total 1",
            "bellwire_calls_ended_total{reason=\"answered\"} 1", "bellwire_presence_total{state=\"online\"} 2",
            "bellwire_store_errors_total 0", "bellwire_deadlines_served_total 1",
        ] { #expect(lines.contains { $0 == line }, "\(line)") }
        let received = world.service.counters[.messagesReceived]
        #expect(lines.contains { $0 == "bellwire_messages_received_total \(received)" })
        #expect(world.service.counters[.messagesSent] == world.published.count)
    }

    @Test func everyResponseIsCountedByItsOutcome() {
        let world = World()
        let alice = world.phone("alice/phone")
        alice.get("none")
        world.send("bellwire/v1/up/alice/phone", #"{"type":"call.get","id":"x"}"#)
        world.send("bellwire/v1/up/alice/phone", #"{"type":"what","id":"x"}"#)
        world.send("bellwire/v1/up/alice/phone", #"{"#)
        let counters = world.service.counters
        #expect(counters[.responses, "callNotFound"] == 1)
        #expect(counters[.responses, "badRequest"] == 1)
        #expect(counters[.responses, "unknownType"] == 1)
        #expect(counters[.messagesRefused, "badRequest"] == 1)
    }

    @Test func gaugesShowTheState() {
        let idle = text()
        #expect(idle.contains("bellwire_listening 0"))
        #expect(idle.contains("bellwire_store_available 1"))
        #expect(idle.contains("# TYPE bellwire_deadlines_waiting gauge"))
        let busy = text(change: {
            $0.isListening = true
            $0.storeFailure = "down"
            $0.waitingDeadlines = 7
            $0.brokerBacklog = 3
        })
        for line in [
            "bellwire_listening 1", "bellwire_store_available 0", "bellwire_deadlines_waiting 7",
            "bellwire_broker_backlog 3",
        ] { #expect(busy.contains { $0 == line }) }
    }

    @Test func readyMeansSubscribedAndStoreThere() {
        let status = CoordinatorStatus()
        #expect(status.notReadyReason == "not subscribed at the broker")
        status.update {
            $0.isListening = true
            $0.lastTurn = SystemClock.boot.milliseconds
        }
        #expect(status.notReadyReason == nil)
        #expect(status.isHealthy)
        status.update { $0.storeFailure = "gone" }
        #expect(status.notReadyReason == "store: gone")
        status.update { $0.isDraining = true }
        #expect(status.notReadyReason == "draining")
        status.update { $0.lastTurn = SystemClock.boot.milliseconds - 6_000 }
        #expect(!status.isHealthy)
        #expect(!status.isStopRequested)
        status.stop()
        #expect(status.isStopRequested)
    }
}
