import SignalingProtocol
import Testing
import Tokens

@testable import BrokerAuth

/// The share of the broker that a client can take, and the cost of watching many clients.
@Suite struct BoundTests {
    @Test func aDeviceSubscribesToFourKindsOfFiltersAndNoOther() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "al%2Fice/phone", try fixture.token("al/ice"))
        let own = "bellwire/v1/down/al%2Fice"
        for filter in [own, own + "/phone", own + "/web.2~x", own + "/+", own + "/#"] {
            #expect(fixture.may(.subscribe, filter), "\(filter)")
        }
        for filter in [
            own + "/", own + "/+/+", own + "/phone/#", own + "/phone/x", own + "/+/#", own + "//", own + "/phone+",
            own + "/ph one", own + "/%41", own + "/" + String(repeating: "x", count: 65), own + "#", own + "+",
        ] {
            #expect(!fixture.may(.subscribe, filter), "\(filter)")
        }
    }

    @Test func aConnectionHasSoManySubscriptionsAndNoMore() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, "alice")
        func filter(_ number: Int) -> String { "bellwire/v1/down/alice/d\(number)" }
        let most = BrokerLimits.subscriptionsPerDevice
        #expect((0..<1000).count { fixture.may(.subscribe, filter($0)) } == most)
        #expect(fixture.may(.subscribe, filter(0)), "again: it has that one")
        #expect(fixture.may(.unsubscribe, filter(0)))
        #expect(fixture.may(.unsubscribe, "bellwire/v1/down/alice/unknown"))
        #expect((1000..<2000).count { fixture.may(.subscribe, filter($0)) } == 1, "room for one")
        try fixture.connect(2, "backend", try fixture.token("backend", role: .server))
        let mostOfServer = BrokerLimits.subscriptionsPerServer
        // All but the last ten filters.
        fixture.auth.sessions[2]?.filters = Set((0..<mostOfServer - 10).map { Array("other-\($0)".utf8) })
        #expect((0..<100).count { fixture.may(.subscribe, "bellwire/v1/down/user-\($0)", 2) } == 10)
    }

    @Test func subscribingAndUnsubscribingCountAsPublishingDoes() throws {
        for access in [TopicAccess.subscribe, .unsubscribe] {
            let fixture = try Fixture(limits: .publishing(1, burst: 5))
            try fixture.letIn(1, "mallory")
            #expect((0..<100).count { _ in fixture.may(access, "bellwire/v1/down/mallory") } == 5)
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/mallory/phone"))
            _ = (0..<BrokerAuth.patience).map { _ in fixture.may(access, "bellwire/v1/down/bob") }
            #expect(fixture.auth.takeDue(now: now) == ended(1, "mallory/phone", .flooding))
        }
    }

    @Test func aUserHasSoManyConnectionsAndWhoReplacesOneNeedsNoRoom() throws {
        var limits = BrokerLimits.none
        limits.connectionsPerUser = 3
        let fixture = try Fixture(limits: limits)
        for number in 1...3 { try fixture.letIn(number, "alice", "d\(number)") }
        #expect(throws: Refusal("the user has 3 connections")) { try fixture.letIn(4, "alice", "d4") }
        try fixture.letIn(5, "bob", "d4")
        try fixture.letIn(6, "alice", "d3")
        #expect(throws: Refusal.self) { try fixture.letIn(4, "alice", "d4") }
        try fixture.letIn(6, "alice", "d3")
        fixture.auth.disconnected(6)
        try fixture.letIn(4, "alice", "d4")
        #expect(throws: Refusal.self) { try fixture.letIn(7, "alice", "d7") }
        try fixture.connect(7, "alice", try fixture.token("alice", role: .server))
    }

    @Test func anAddressHasSoManyConnections() throws {
        var limits = BrokerLimits.none
        limits.connectionsPerAddress = 2
        let fixture = try Fixture(limits: limits)
        func connect(_ connection: Int, _ user: String, from address: String) throws {
            try fixture.connect(connection, "\(user)/phone", try fixture.token(user), address: address)
        }
        try connect(1, "a", from: "192.0.2.1")
        try connect(2, "b", from: "192.0.2.1")
        #expect(throws: Refusal("its address has 2 connections")) { try connect(3, "c", from: "192.0.2.1") }
        try connect(3, "c", from: "192.0.2.2")
        try connect(4, "b", from: "192.0.2.1")
        #expect(throws: Refusal.self) { try connect(5, "d", from: "192.0.2.1") }
        fixture.auth.disconnected(4)
        try connect(5, "d", from: "192.0.2.1")
        for connection in [1, 2, 3, 5] { fixture.auth.disconnected(connection) }
        _ = fixture.auth.takeDue(now: now)
        #expect(fixture.auth.addresses.isEmpty && fixture.auth.devices.isEmpty && fixture.auth.connections == 0)
    }

    /// The cost of a connection that has ended must not be the cost of all connections.
    @Test func whatIsDueIsFoundWithoutLookingAtAll() throws {
        let fixture = try Fixture()
        let count = 3_000
        for number in 0..<count { try fixture.letIn(number, "u\(number)", lasts: 1_000_000 + Int64(number) * 1_000) }
        for number in 0..<count {
            #expect(
                fixture.auth.takeDue(now: now + 1_000_000 + Int64(number) * 1_000).contains(
                    .ended(clientID: "u\(number)/phone", topic: "bellwire/v1/down/u\(number)/phone", .tokenExpired)))
            fixture.auth.disconnected(number)
        }
        _ = fixture.auth.takeDue(now: now + 10_000_000)
        #expect(fixture.auth.connections == 0)
        #expect(fixture.auth.looks <= 2 * count)
    }

    @Test func aFloodingUserIsFoundWithoutLookingAtAll() throws {
        let fixture = try Fixture(limits: .publishing(1, burst: 1))
        for number in 0..<2_000 { try fixture.letIn(number, "u\(number)") }
        for _ in 0...BrokerAuth.patience { _ = fixture.may(.publish(retain: false), "bellwire/v1/up/u7/phone", 7) }
        #expect(fixture.auth.takeDue(now: now) == ended(7, "u7/phone", .flooding))
        #expect(fixture.auth.looks == 0)
    }

    @Test func whatIsPlannedForThoseWhoAreGoneIsForgotten() throws {
        let fixture = try Fixture()
        for _ in 0..<6_000 {
            try fixture.letIn(1, "alice")
            fixture.auth.disconnected(1)
            _ = fixture.auth.takeDue(now: now)
        }
        #expect(fixture.auth.schedule.count < 2_000)
    }

    @Test func whoIsKeptOutLongestIsForgottenFirst() throws {
        var exclusions = Exclusions()
        let users = (0...Exclusions.limit).map { UserID("u\($0)")! }
        for (place, user) in users.enumerated() { exclusions.add(user, now: Int64(place) / 1_000) }
        #expect(!exclusions.contains(users[0], now: 10))
        #expect(users.dropFirst().allSatisfy { exclusions.contains($0, now: 10) })
        #expect(!users.contains { exclusions.contains($0, now: 10 + Exclusions.length) })
    }
}
