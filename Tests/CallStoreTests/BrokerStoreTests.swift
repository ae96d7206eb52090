import CallCore
import CallStore
import FuzzEntries
import SignalingProtocol
import Testing

/// The brokers of a deployment with several brokers, as every store keeps them (`BrokerSightings`).
@Suite struct BrokerStoreTests {
    private let a = "a:1883", b = "[::1]:1883"

    /// A report of a coordinator that heard each broker this number of milliseconds ago.
    private func report(
        _ heard: (String, Milliseconds)..., by coordinator: String = "one", finished: [BrokerReport.RollCallName] = []
    ) -> BrokerReport {
        var report = BrokerReport(coordinator: coordinator, patience: 4_000, memory: 1_200_000)
        report.heard = heard.map { ($0.0, $0.1) }
        report.finished = finished
        return report
    }

    private func online(_ device: DeviceAddress, at broker: String, in test: StoreUnderTest) throws {
        _ = try test.store.cameOnline([DeviceSession(device, id: "s", broker: broker)], policy: .init())
    }

    @Test(arguments: StoreKind.allCases)
    func aDeviceIsNotOnlineAtABrokerThatIsAway(kind: StoreKind) throws {
        let test = try kind.open()
        try online(alicePhone, at: b, in: test)
        #expect(try test.store.report(report((a, 0), (b, 3_000))).away == [])
        #expect(try test.isReachable(alicePhone))
        #expect(try test.store.report(report((a, 0), (b, 3_000), by: "two")).away == [])
        // The broker is silent meanwhile: its former message is by now older than the patience.
        let fresh = try kind.open()
        try online(alicePhone, at: b, in: fresh)
        try online(bobPhone, at: a, in: fresh)
        try fresh.pass(6_000)
        let sightings = try fresh.store.report(report((a, 0), (b, 5_000)))
        #expect(sightings.away == [b])
        #expect(sightings[b]?.rollCall?.coordinator == "one")
        #expect(try !fresh.isReachable(alicePhone))
        #expect(try fresh.isReachable(bobPhone))
        #expect(try fresh.store.read([.devices(alicePhone.userID)])[0].devices[0].isAway)
        // The presence itself stands: the session may go on.
        #expect(try fresh.presence(alicePhone)?.isOnline == true)
    }

    @Test(arguments: StoreKind.allCases)
    func aDeviceIsOnlineAgainOnceItIsHeardAfterItsBrokerIsBack(kind: StoreKind) throws {
        let test = try kind.open()
        try online(alicePhone, at: b, in: test)
        try test.pass(6_000)
        let away = try #require(try test.store.report(report((a, 0), (b, 5_000)))[b])
        let name = BrokerReport.RollCallName(away)
        try test.pass(10)
        let back = try #require(try test.store.report(report((a, 0), (b, 0), finished: [name]))[b])
        #expect(back.epoch == 2)
        #expect(!back.isAway)
        #expect(try !test.isReachable(alicePhone))
        try test.store.renew([alicePhone])
        #expect(try test.isReachable(alicePhone))
    }

    @Test(arguments: StoreKind.allCases)
    func thePagesHaveTheDevicesThatAreOnlineAtTheBroker(kind: StoreKind) throws {
        let test = try kind.open()
        var expected: Set<DeviceAddress> = []
        for number in 0..<300 {
            let device = DeviceAddress(userID: UserID("user-\(number % 100)")!, deviceID: DeviceID("d\(number)")!)
            try online(device, at: number % 3 == 0 ? a : b, in: test)
            if number % 3 != 0 { expected.insert(device) }
        }
        let moved = DeviceAddress(userID: UserID("user-1")!, deviceID: DeviceID("d1")!)
        let gone = DeviceAddress(userID: UserID("user-2")!, deviceID: DeviceID("d2")!)
        try online(moved, at: a, in: test)
        _ = try test.store.wentOffline([DeviceSession(gone, id: "s", broker: b)], policy: .init())
        expected.subtract([moved, gone])
        let found = try devices(at: b, in: test)
        #expect(Set(found) == expected)
        #expect(found.count == expected.count)
        #expect(try devices(at: "other:1", in: test) == [])
    }

    private func devices(at broker: String, in test: StoreUnderTest) throws -> [DeviceAddress] {
        var (found, place, pages): ([DeviceAddress], String?, Int) = ([], nil, 0)
        repeat {
            let page = try test.store.devices(at: broker, after: place, limit: 32)
            found += page.devices.map(\.device)
            place = page.next
            pages += 1
            try #require(pages < 100)
        } while place != nil
        return found
    }

    @Test(arguments: StoreKind.allCases)
    func anotherProcessReadsTheSightings(kind: StoreKind) throws {
        let test = try kind.open()
        try test.store.readSightings()
        try online(alicePhone, at: b, in: test)
        #expect(try test.isReachable(alicePhone))
        try test.pass(6_000)
        _ = try test.store.report(report((a, 0), (b, 5_000)))
        try test.store.readSightings()
        #expect(try !test.isReachable(alicePhone))
    }

    @Test func theTextOfSightingsIsReadAgain() throws {
        var sightings = BrokerSightings()
        for coordinator in ["one", "the second\none"] {
            sightings.take(report((a, 0), (b, 5_000), by: coordinator), now: 1_790_000_000_000)
        }
        sightings.take(report((a, 0), (b, 0), by: "x"), now: 1_790_000_001_000)
        #expect(BrokerSightings(sightings.text) == sightings)
        #expect(BrokerSightings(BrokerSightings().text) == BrokerSightings())
    }

    @Test(arguments: [
        "", "x", "1\na:1", "1\na:1 2 3 4 5", "1\na:1 2 3 4 0 7", "1\na:1 -2 3 4 0", "99999999999999999999",
    ])
    func aTextThatMakesNoSenseHasNoSightings(text: String) { #expect(BrokerSightings(text) == nil) }
}
