import CallCore
import SignalingProtocol
import Testing

/// When a broker is away, and when it is back (docs/protocol.md, section 1, Several brokers).
@Suite struct BrokerSightingsTests {
    private var sightings = BrokerSightings()
    private var now: Milliseconds = 1_000_000

    /// A report of a coordinator that hears these brokers now.
    private mutating func report(
        _ heard: String..., by coordinator: String = "one", finished: [BrokerReport.RollCallName] = []
    ) {
        var report = BrokerReport(coordinator: coordinator, patience: 10_000, memory: 1_200_000)
        report.heard = heard.map { ($0, 0) }
        report.finished = finished
        sightings.take(report, now: now)
    }

    /// Reports once a second, from now on, for this number of seconds.
    private mutating func reports(_ heard: String..., seconds: Int) {
        for _ in 0..<seconds {
            now += 1_000
            var report = BrokerReport(coordinator: "one", patience: 10_000, memory: 1_200_000)
            report.heard = heard.map { ($0, 0) }
            sightings.take(report, now: now)
        }
    }

    private func online(at broker: String, seen: Milliseconds) -> DevicePresence {
        DevicePresence(
            device: DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!), session: "s", isOnline: true,
            since: seen, seen: seen, broker: broker)
    }

    private func isAway(_ device: DevicePresence) -> Bool { sightings.marked([device])[0].isAway }

    @Test mutating func aBrokerIsAwayWhenNoCoordinatorHearsIt() {
        report("a", "b")
        let device = online(at: "b", seen: now)
        reports("a", seconds: 10)
        #expect(sightings.away == [])
        #expect(!isAway(device))
        reports("a", seconds: 1)
        #expect(sightings.away == ["b"])
        #expect(isAway(device))
        #expect(!isAway(online(at: "a", seen: 0)))
        #expect(!isAway(online(at: "unknown", seen: 0)))
    }

    @Test mutating func aCoordinatorThatAloneIsCutOffMakesNobodyLost() {
        report("a", "b")
        for _ in 0..<100 {
            now += 500
            report("a", by: "cut off")
            now += 500
            report("a", "b", by: "other")
        }
        #expect(sightings.away == [])
    }

    @Test mutating func timeInWhichNobodyListenedDoesNotCount() {
        report("a", "b")
        reports("a", seconds: 8)
        now += 60_000
        report("a")
        #expect(sightings.away == [])
        reports("a", seconds: 2)
        #expect(sightings.away == [])
        reports("a", seconds: 1)
        #expect(sightings.away == ["b"])
    }

    @Test mutating func aBrokerThatIsBackBeginsAnEpoch() throws {
        report("a", "b")
        let before = online(at: "b", seen: now)
        reports("a", seconds: 20)
        let lost = try #require(sightings["b"])
        #expect(lost.seen == 1_000_000)
        report("a", "b")
        #expect(sightings["b"]?.epoch == 2)
        #expect(sightings.away == [])
        #expect(isAway(before), "it was not heard since")
        #expect(!isAway(online(at: "b", seen: now)))
        #expect(!isAway(online(at: "b", seen: now - 900)), "heard after the return, and before the report of it")
    }

    @Test mutating func aMessageFromBeforeDoesNotBringABrokerBack() {
        report("a", "b")
        reports("a", seconds: 20)
        var late = BrokerReport(coordinator: "slow", patience: 10_000, memory: 1_200_000)
        late.heard = [("b", 20_000)]
        sightings.take(late, now: now)
        #expect(sightings.away == ["b"])
    }

    @Test mutating func oneCoordinatorAtATimeHasARollCall() throws {
        report("a", "b")
        reports("a", seconds: 11)
        #expect(sightings["b"]?.rollCall?.coordinator == "one")
        now += 1_000
        report("a", by: "two")
        #expect(sightings["b"]?.rollCall?.coordinator == "one")
        for _ in 0..<5 {
            now += 1_000
            report("a", by: "two")
        }
        #expect(sightings["b"]?.rollCall?.coordinator == "two", "the first one is dead")
        let name = BrokerReport.RollCallName(try #require(sightings["b"]))
        report("a", by: "one", finished: [name])
        #expect(sightings["b"]?.rollCall?.coordinator == "two", "only its coordinator finishes a roll call")
        report("a", by: "two", finished: [name])
        #expect(sightings["b"]?.rollCall == nil)
        report("a", "b", by: "one", finished: [name])
        #expect(sightings["b"]?.rollCall?.coordinator == "one", "the broker is back: another roll call")
    }

    @Test mutating func aBrokerThatStaysAwayIsForgotten() {
        report("a", "b")
        reports("a", seconds: 1_199)
        #expect(sightings["b"] != nil)
        reports("a", seconds: 2)
        #expect(sightings["b"] == nil)
    }

    @Test mutating func theNumberOfBrokersIsBounded() {
        for number in 0..<500 { report("b\(number)") }
        #expect(sightings.sightings.count == 128)
    }

    @Test mutating func reportsInAnotherOrderDoNoHarm() {
        report("a", "b")
        now += 900
        report("a", by: "two")
        now -= 500
        report("b", by: "one")
        #expect(sightings.reported == now + 500)
        #expect(sightings["b"]!.seen == now + 500)
    }
}
