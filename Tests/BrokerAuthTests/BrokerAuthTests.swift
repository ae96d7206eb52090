import SignalingProtocol
import Testing
import Tokens

@testable import BrokerAuth

@Suite struct BrokerAuthTests {
    @Test func aDeviceMayDoWhatIsItsOwnAndNothingElse() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "al%2Fice/phone", try fixture.token("al/ice"), username: "al%2Fice")
        for topic in ["bellwire/v1/up/al%2Fice/phone", "bellwire/v1/presence/al%2Fice/phone"] {
            #expect(fixture.may(.publish(retain: false), topic))
            #expect(!fixture.may(.publish(retain: true), topic))
            #expect(!fixture.may(.receive, topic))
            #expect(!fixture.may(.subscribe, topic))
        }
        for topic in ["bellwire/v1/down/al%2Fice", "bellwire/v1/down/al%2Fice/phone", "bellwire/v1/down/al%2Fice/#"] {
            #expect(fixture.may(.subscribe, topic))
            #expect(fixture.may(.receive, topic))
            #expect(!fixture.may(.publish(retain: false), topic))
        }
        for topic in [
            "bellwire/v1/up/al%2Fice/web", "bellwire/v1/up/al%2Fice/phone/x", "bellwire/v1/up/al%2Fice",
            "bellwire/v1/up/bob/phone", "bellwire/v1/presence/bob/phone", "bellwire/v1/down/bob/phone",
            "bellwire/v2/up/al%2Fice/phone", "$SYS/broker/uptime", "", "/",
        ] {
            #expect(!fixture.may(.publish(retain: false), topic), "\(topic)")
        }
        for filter in [
            "#", "+/#", "bellwire/#", "bellwire/v1/down/#", "bellwire/v1/down/+", "bellwire/v1/down/+/phone",
            "bellwire/v1/down/al%2Ficeberg", "bellwire/v1/down/bob", "bellwire/v1/down/bob/phone",
            "bellwire/v1/down/al%2Fice+", "$SYS/#", "$share/coordinators/bellwire/v1/up/#",
            "$share/x/bellwire/v1/down/al%2Fice", "$share/x", "$share/", "$share//bellwire/v1/down/#", "",
        ] {
            #expect(!fixture.may(.subscribe, filter), "\(filter)")
            #expect(!fixture.may(.receive, filter), "\(filter)")
        }
    }

    @Test func aCoordinatorServesAndNothingElse() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "coordinator-1", try fixture.token("service", role: .coordinator))
        #expect(fixture.may(.subscribe, "$share/coordinators/bellwire/v1/up/#"))
        #expect(fixture.may(.subscribe, "$share/coordinators/bellwire/v1/presence/#"))
        #expect(fixture.may(.receive, "bellwire/v1/up/bob/phone"))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/down/bob"))
        #expect(!fixture.may(.publish(retain: true), "bellwire/v1/down/bob"))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/bob/phone"))
        for filter in ["bellwire/v1/up/#", "bellwire/v1/down/#", "#", "$share//bellwire/v1/up/#", "$share/g/#"] {
            #expect(!fixture.may(.subscribe, filter), "\(filter)")
        }
    }

    /// Coordinators see by these topics whether a broker delivers, and send each other messages for other brokers.
    @Test func aCoordinatorSendsItselfCanariesAndOthersRelays() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "coordinator-1", try fixture.token("service", role: .coordinator))
        for topic in ["bellwire/v1/canary", "bellwire/v1/canary/coordinator-1", "bellwire/v1/relay/broker-2:1883"] {
            #expect(fixture.may(.publish(retain: false), topic), "\(topic)")
            #expect(fixture.may(.receive, topic), "\(topic)")
        }
        #expect(fixture.may(.subscribe, "bellwire/v1/canary/coordinator-1"))
        #expect(fixture.may(.subscribe, "$share/coordinators/bellwire/v1/canary"))
        #expect(fixture.may(.subscribe, "$share/coordinators/bellwire/v1/relay/broker-2:1883"))
        #expect(!fixture.may(.subscribe, "bellwire/v1/relay/broker-2:1883"), "each message has one taker")
        try fixture.connect(2, "alice/phone", try fixture.token("alice"))
        try fixture.connect(3, "backend", try fixture.token("backend", role: .server))
        for connection in [2, 3] {
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/relay/broker-2:1883", connection))
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/canary", connection))
        }
    }

    @Test func aDisabledUserIsOutUntilTheListNamesTheUserNoMore() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "coordinator-1", try fixture.token("service", role: .coordinator))
        try fixture.letIn(2, "alice")
        try fixture.letIn(3, "bob")
        try fixture.connect(4, "backend", try fixture.token("alice", role: .server))
        let topic = Topics.standard.disabledUsers
        func tell(_ users: [String], by connection: Int = 1, on topic: String = topic) {
            let payload = DisabledUsers(Set(users.map { UserID($0)! })).payload
            Array(topic.utf8).withUnsafeBufferPointer { topic in
                payload.withUnsafeBufferPointer { fixture.auth.published(topic, $0, by: connection) }
            }
        }
        #expect(fixture.may(.publish(retain: false), topic))
        #expect(!fixture.may(.publish(retain: true), topic))
        #expect(!fixture.may(.subscribe, topic) && !fixture.may(.receive, topic))
        for connection in [2, 4] {
            #expect(!fixture.may(.publish(retain: false), topic, connection))
            // A denied message changes nothing even if the broker asked.
            tell(["bob"], by: connection)
        }
        tell(["bob"], on: topic + "/")
        #expect(fixture.auth.takeDue(now: now) == [])
        tell(["alice"])
        #expect(fixture.auth.takeDue(now: now) == ended(2, "alice/phone", .userDisabled))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone", 2))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/bob/phone", 3))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/alice/server", 4), "a server's sub is only a name")
        let token = try fixture.token("alice")
        #expect(throws: Refusal.self) { try fixture.connect(5, "alice/tablet", token) }
        tell([])
        try fixture.connect(6, "alice/tablet", token)
    }

    @Test func anAdministratorIsNoClient() throws {
        let fixture = try Fixture()
        fixture.auth.verifier.audience = "bellwire"
        var admin = Token(user: UserID("olivia")!, expiresAt: now + 600_000)
        (admin.role, admin.audience) = (.admin, ["bellwire"])
        let token = try admin.signed(by: fixture.key, issuedAt: now)
        for client in ["olivia", "olivia/phone"] {
            #expect(throws: Refusal.self) { try fixture.connect(1, client, token) }
        }
    }

    @Test func aServerActsForAnyUser() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "backend", try fixture.token("backend", role: .server))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/bob/backend"))
        #expect(fixture.may(.subscribe, "bellwire/v1/down/bob/backend"))
        #expect(fixture.may(.subscribe, "bellwire/v1/down/#"))
        #expect(fixture.may(.subscribe, "$share/backends/bellwire/v1/down/#"))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/down/bob"))
        #expect(!fixture.may(.subscribe, "bellwire/v1/up/#"))
    }

    /// `bellwire doctor` tries the broker on topics of its own, also as a will.
    @Test(arguments: [Token.Role.server, .coordinator])
    func serversAndCoordinatorsMayExamineTheBroker(role: Token.Role) throws {
        let fixture = try Fixture()
        try fixture.connect(1, "doctor-1", try fixture.token("backend", role: role))
        try fixture.connect(2, "alice/phone", try fixture.token("alice"))
        let topic = "bellwire/v1/doctor/1/plain"
        for filter in [topic, "bellwire/v1/doctor/1/#", "$share/doctor-1/bellwire/v1/doctor/1/shared"] {
            #expect(fixture.may(.subscribe, filter) && !fixture.may(.subscribe, filter, 2))
        }
        for access in [TopicAccess.publish(retain: false), .receive] {
            #expect(fixture.may(access, topic) && !fixture.may(access, topic, 2))
        }
        #expect(!fixture.may(.publish(retain: true), topic))
        fixture.auth.disconnected(1)
        #expect(fixture.may(.publish(retain: false), topic), "its will")
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/down/bob"))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/bob/server"))
        _ = fixture.auth.takeDue(now: now)
        #expect(!fixture.may(.publish(retain: false), topic))
    }

    @Test func nobodyTakesTheClientIDOfAnother() throws {
        let fixture = try Fixture()
        let alice = try fixture.token("alice")
        for (clientID, username) in [
            ("bob/phone", nil), ("alice", nil), ("", nil), ("alice/", nil), ("alice/phone/x", nil), ("/phone", nil),
            ("ALICE/phone", nil), ("alice/server", nil), ("alice/phone", "bob"), ("alice/phone", ""),
            ("coordinator-1", nil),
        ] as [(String, String?)] {
            #expect(throws: Refusal.self, "\(clientID)") {
                try fixture.connect(1, clientID, alice, username: username)
            }
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone"))
        }
        let one = try fixture.token("alice", device: "phone")
        #expect(throws: Refusal.self) { try fixture.connect(1, "alice/web", one) }
        try fixture.connect(1, "alice/phone", one)
        for role in [Token.Role.server, .coordinator] {
            let token = try fixture.token("alice", role: role)
            #expect(throws: Refusal.self) { try fixture.connect(2, "alice/phone", token) }
        }
    }

    @Test func withoutATokenNobodyComesIn() throws {
        let fixture = try Fixture()
        for token in [nil, "", "secret"] {
            #expect(throws: Refusal.self) { try fixture.connect(1, "alice/phone", token, username: "alice") }
        }
        #expect(throws: Refusal.self) { try fixture.connect(1, "coordinator-1", nil, certificate: "coordinator") }
        #expect(fixture.auth.connections == 0)
    }

    @Test func aCertificateMakesACoordinatorWhenItHasTheName() throws {
        let fixture = try Fixture(coordinatorName: "coordinator")
        try fixture.connect(1, "coordinator-1", nil, certificate: "coordinator")
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/down/bob"))
        #expect(throws: Refusal.self) { try fixture.connect(2, "coordinator-2", nil, certificate: "somebody") }
        #expect(throws: Refusal.self) { try fixture.connect(2, "alice/phone", nil, certificate: "coordinator") }
        // A client that shows a token has the rights of the token.
        try fixture.connect(2, "alice/phone", try fixture.token("alice"), certificate: "coordinator")
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/down/bob", 2))
    }

    @Test func aDeviceIsToldAMinuteBeforeAndIsOutAtTheEnd() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "alice/phone", try fixture.token("alice", lasts: 100_000))
        try fixture.connect(2, "backend", try fixture.token("backend", role: .server, lasts: 100_000))
        #expect(fixture.may(.subscribe, "bellwire/v1/down/alice/phone"))
        #expect(fixture.auth.takeDue(now: now + 39_999) == [])
        #expect(
            fixture.auth.takeDue(now: now + 40_000) == [
                .tokenWillExpire(
                    clientID: "alice/phone", topic: "bellwire/v1/down/alice/phone", expiresAt: now + 100_000)
            ])
        #expect(fixture.auth.takeDue(now: now + 99_999) == [], "told once")
        let ended = fixture.auth.takeDue(now: now + 100_000)
        #expect(Set(ended.map { "\($0)" }).count == 2)
        #expect(ended.contains(.ended(clientID: "backend", topic: nil, .tokenExpired)))
        #expect(
            ended.contains(
                .ended(clientID: "alice/phone", topic: "bellwire/v1/down/alice/phone", .tokenExpired)))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone"), "at once")
        // The message to the device is on its way.
        #expect(fixture.auth.takeDue(now: now + 100_199) == [])
        let disconnected = fixture.auth.takeDue(now: now + 100_200)
        #expect(Set(disconnected.map { "\($0)" }).count == 2)
        #expect(disconnected.contains(.disconnect(clientID: "alice/phone", 1, .tokenExpired)))
        #expect(fixture.auth.takeDue(now: now + 200_000) == [])
    }

    @Test func theReasonsAreErrorCodesOfTheProtocol() {
        #expect(DisconnectReason.allCases.allSatisfy { ErrorCode.all.contains($0.code) })
    }

    /// The broker publishes the will, and asks for permission, after it has said that the client is gone.
    @Test func theWillOfWhoIsGoneIsLetThroughAndNothingElse() throws {
        let fixture = try Fixture()
        for isPutOff in [false, true] {
            try fixture.connect(1, "alice/phone", try fixture.token("alice", lasts: 10_000))
            if isPutOff {
                #expect(fixture.auth.takeDue(now: now + 10_000) == ended(1, "alice/phone", .tokenExpired))
            }
            fixture.auth.disconnected(1)
            #expect(fixture.may(.publish(retain: false), "bellwire/v1/presence/alice/phone"))
            #expect(!fixture.may(.publish(retain: true), "bellwire/v1/presence/alice/phone"))
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone"))
            #expect(!fixture.may(.receive, "bellwire/v1/down/alice"))
            #expect(!fixture.may(.subscribe, "bellwire/v1/down/alice"))
            #expect(fixture.auth.takeDue(now: now + 10_001) == [])
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/presence/alice/phone"))
            #expect(fixture.auth.connections == 0)
        }
    }

    /// A message to a device that does not listen yet is lost.
    @Test func aShortTokenIsToldOfWhenTheDeviceListens() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "alice/phone", try fixture.token("alice", lasts: 20_000))
        #expect(fixture.auth.takeDue(now: now + 1_000) == [])
        #expect(fixture.may(.subscribe, "bellwire/v1/down/alice/phone"))
        #expect(fixture.auth.takeDue(now: now + 1_001).count == 1)
    }

    @Test func whoTookTheDeviceOverIsNotPutOffWhenTheFormersTokenEnds() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "alice/phone", try fixture.token("alice", lasts: 10_000))
        try fixture.connect(2, "alice/phone", try fixture.token("alice", lasts: 600_000))
        #expect(fixture.auth.takeDue(now: now + 10_000) == [])
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone", 2))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone", 1))
        fixture.auth.disconnected(1)
        #expect(fixture.auth.takeDue(now: now + 600_000) == ended(2, "alice/phone", .tokenExpired))
        fixture.auth.disconnected(2)
        #expect(fixture.auth.takeDue(now: now + 600_001) == [])
        #expect(fixture.auth.connections == 0)
    }

    @Test func whoseKeyIsTakenAwayIsOut() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "alice/phone", try fixture.token("alice"))
        let next = try TokenKey.generate(.es256)
        #expect(fixture.auth.replaceKeys(KeySet([next, fixture.key])) == 0)
        #expect(fixture.auth.replaceKeys(KeySet([next])) == 1)
        #expect(!fixture.may(.receive, "bellwire/v1/down/alice"))
        let old = try fixture.token("alice")
        #expect(throws: Refusal.self) { try fixture.connect(2, "alice/phone", old) }
        #expect(fixture.auth.takeDue(now: now) == ended(1, "alice/phone", .tokenRevoked))
        #expect(fixture.auth.takeDue(now: now + 200) == [.disconnect(clientID: "alice/phone", 1, .tokenRevoked)])
    }

    @Test func theServiceIsToldWhenADevicesTokenEnds() throws {
        let fixture = try Fixture()
        try fixture.connect(1, "alice/phone", try fixture.token("alice", lasts: 600_000))
        try fixture.connect(2, "backend", try fixture.token("backend", role: .server))
        func expiry(_ connection: Int, _ topic: String) -> Int64? {
            Array(topic.utf8).withUnsafeBufferPointer { fixture.auth.tokenExpiry(ofPublisher: connection, topic: $0) }
        }
        #expect(expiry(1, "bellwire/v1/presence/alice/phone") == now + 600_000)
        #expect(expiry(1, "bellwire/v1/up/alice/phone") == nil)
        #expect(expiry(2, "bellwire/v1/presence/alice/phone") == nil)
        #expect(expiry(3, "bellwire/v1/presence/alice/phone") == nil)
    }

    @Test func aDeviceThatFloodsIsHeldBackThenPutOffAndKeptOut() throws {
        let fixture = try Fixture(limits: .publishing(100, burst: 50))
        try fixture.connect(1, "mallory/phone", try fixture.token("mallory"))
        try fixture.connect(2, "alice/phone", try fixture.token("alice"))
        func publishes(_ count: Int, at time: Int64) -> Int {
            (0..<count).count { _ in
                fixture.may(.publish(retain: false), "bellwire/v1/up/mallory/phone", at: time)
            }
        }
        #expect(publishes(60, at: now) == 50)
        #expect(publishes(60, at: now + 100) == 10)
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone", 2))
        #expect(fixture.auth.takeDue(now: now + 101) == [], "patience")
        _ = publishes(BrokerAuth.patience, at: now + 200)
        // A device that connects again does not begin anew, and is put off with all devices of its user.
        #expect(throws: Refusal.self) {
            try fixture.connect(5, "mallory/tv", try fixture.token("mallory"), at: now + 200)
        }
        #expect(fixture.auth.takeDue(now: now + 200) == ended(1, "mallory/phone", .flooding))
        #expect(fixture.auth.takeDue(now: now + 400) == [.disconnect(clientID: "mallory/phone", 1, .flooding)])
        fixture.auth.disconnected(1)
        try fixture.connect(6, "mallory-backend", try fixture.token("mallory", role: .server), at: now + 200)
        let token = try fixture.token("mallory")
        #expect(throws: Refusal.self) { try fixture.connect(3, "mallory/web", token, at: now + 30_199) }
        try fixture.connect(3, "mallory/web", token, at: now + 30_200)
        try fixture.connect(4, "alice/web", try fixture.token("alice"))
    }

    @Test func aRateIsTheUsersWhateverTheConnection() throws {
        let fixture = try Fixture(limits: .publishing(1, burst: 10))
        var admitted = 0
        for connection in 1...5 {
            try fixture.connect(connection, "mallory/d\(connection)", try fixture.token("mallory"))
            for _ in 0..<10
            where fixture.may(.publish(retain: false), "bellwire/v1/up/mallory/d\(connection)", connection) {
                admitted += 1
            }
            fixture.auth.disconnected(connection)
            _ = fixture.auth.takeDue(now: now)
        }
        #expect(admitted == 10)
    }

    /// A broker that reads its configuration again asks about every client again.
    @Test func whoIsAskedAboutAgainKeepsItsPlace() throws {
        let fixture = try Fixture()
        let token = try fixture.token("alice", lasts: 100_000)
        try fixture.connect(1, "alice/phone", token)
        #expect(fixture.may(.subscribe, "bellwire/v1/down/alice/phone"))
        try fixture.connect(1, "alice/phone", token, at: now + 1_000)
        #expect(fixture.auth.takeDue(now: now + 40_000).count == 1, "it still listens")
        try fixture.connect(1, "alice/phone", token, at: now + 50_000)
        #expect(fixture.auth.takeDue(now: now + 60_000) == [], "and was told")
        // A client whose key was taken away is not thrown out without a word, but has no rights any more; its will
        // passes.
        let next = try TokenKey.generate(.es256)
        #expect(fixture.auth.replaceKeys(KeySet([next])) == 1)
        try fixture.connect(1, "alice/phone", token, at: now + 60_000)
        #expect(!fixture.may(.receive, "bellwire/v1/down/alice"))
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone"))
        fixture.auth.disconnected(1)
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/presence/alice/phone"))
    }

    /// A forbidden message costs the broker as much as a permitted message.
    @Test func whatIsForbiddenCountsAndServersAndCoordinatorsDoNot() throws {
        let fixture = try Fixture(limits: .publishing(1, burst: 5))
        try fixture.connect(1, "mallory/phone", try fixture.token("mallory"))
        for _ in 0..<5 { _ = fixture.may(.publish(retain: false), "bellwire/v1/up/alice/phone") }
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/mallory/phone"))
        try fixture.connect(2, "c", try fixture.token("c", role: .coordinator))
        try fixture.connect(3, "s", try fixture.token("s", role: .server))
        for _ in 0..<100 {
            #expect(fixture.may(.publish(retain: false), "bellwire/v1/down/alice", 2))
            #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/alice/s", 3))
        }
    }

    @Test func aRefusalRepeatsNothingOfTheToken() throws {
        let fixture = try Fixture()
        let text = try fixture.token("alice", lasts: -1000)
        do {
            try fixture.connect(1, "alice/phone", text)
            Issue.record("it has expired")
        } catch {
            #expect("\(error)" == "token: expired")
        }
    }
}
