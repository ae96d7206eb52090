import SignalingProtocol
import Testing
import Tokens

@testable import BrokerAuth

/// Every name of a user is compared as bytes: "café" has two spellings that Swift's strings hold equal, and the
/// spellings are two users.
@Suite struct ByteTests {
    private let composed = "caf\u{E9}"
    private let decomposed = "cafe\u{301}"

    @Test func theTwinIsAnother() throws {
        #expect(composed == decomposed, "as strings")
        let fixture = try Fixture()
        try fixture.letIn(1, composed, lasts: 10_000)
        try fixture.letIn(2, decomposed, lasts: 600_000)
        #expect(fixture.auth.latest.count == 2)
        #expect(fixture.auth.takeDue(now: now + 10_000).count == 1)
        #expect(fixture.auth.takeDue(now: now + 10_200).count == 1, "the one whose token ended is disconnected")
        #expect(!fixture.may(.publish(retain: false), "bellwire/v1/up/\(composed)/phone", 1, at: now + 10_000))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/\(decomposed)/phone", 2, at: now + 10_000))
        for (one, other, connection) in [(composed, decomposed, 3), (decomposed, composed, 4)] {
            try fixture.letIn(connection, one)
            #expect(!fixture.may(.subscribe, "bellwire/v1/down/\(other)", connection))
            #expect(!fixture.may(.receive, "bellwire/v1/down/\(other)", connection))
            #expect(!fixture.may(.publish(retain: false), "bellwire/v1/presence/\(other)/phone", connection))
        }
    }

    @Test func theTokenOfTheTwinIsOfNoUse() throws {
        let fixture = try Fixture()
        let token = try fixture.token(composed)
        #expect(throws: Refusal.self) { try fixture.connect(1, "\(decomposed)/phone", token) }
        #expect(throws: Refusal.self) { try fixture.connect(1, "\(composed)/phone", token, username: decomposed) }
        try fixture.connect(1, "\(composed)/phone", token, username: composed)
    }

    /// A broker may give a connection the place in memory of a former connection.
    @Test func theTwinOfWhoIsBeingPutOffComesIn() throws {
        let fixture = try Fixture()
        try fixture.letIn(1, composed, lasts: 10_000)
        _ = fixture.auth.takeDue(now: now + 10_000)
        try fixture.letIn(1, decomposed)
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/\(decomposed)/phone"))
    }

    @Test func theLimitsOfTheTwinAreItsOwn() throws {
        var limits = BrokerLimits.publishing(1, burst: 5)
        limits.connectionsPerUser = 1
        let fixture = try Fixture(limits: limits)
        try fixture.letIn(1, composed)
        try fixture.letIn(2, decomposed)
        for _ in 0...BrokerAuth.patience + 5 {
            _ = fixture.may(.publish(retain: false), "bellwire/v1/up/\(composed)/phone", 1)
        }
        #expect(fixture.auth.takeDue(now: now) == ended(1, "\(composed)/phone", .flooding))
        #expect(fixture.may(.publish(retain: false), "bellwire/v1/up/\(decomposed)/phone", 2))
    }

    @Test func aCertificateIsOfTheNameAndNotOfItsTwin() throws {
        let fixture = try Fixture(coordinatorName: composed)
        #expect(throws: Refusal.self) { try fixture.connect(1, "c", nil, certificate: decomposed) }
        try fixture.connect(1, "c", nil, certificate: composed)
    }
}
