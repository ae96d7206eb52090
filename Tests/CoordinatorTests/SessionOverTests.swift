import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// An `online:true` of a session that is over (docs/protocol.md, section 1, Presence).
struct SessionOverTests {
    let world = World()
    let bob: Phone

    init() {
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    private func presentAgain() {
        // A client that reconnects by itself, with the will of its former connection, sends these messages.
        world.send([bob.presence(.offline(.lost), session: "s1")])
        world.send([bob.presence(.online, session: "s1")])
    }

    @Test func theDeviceIsToldOfItsSession() throws {
        presentAgain()
        #expect(world.lines() == ["bob/phone error sessionOver"])
        let told = try #require(world.published.last)
        guard case .error(let error) = told.message else {
            Issue.record("\(told)")
            return
        }
        #expect(error.session == "s1")
        #expect(world.services[0].counters[.presence, "over"] == 1)
    }

    @Test func anotherSessionIsWelcomedAtOnce() {
        presentAgain()
        bob.comeOnline(as: "s2")
        #expect(world.lines().last == "bob/phone welcome s2")
    }

    @Test func whatIsNotServedForItsRateIsNotAnswered() {
        for _ in 0..<100 { presentAgain() }
        #expect(world.lines().count <= 30, "the burst of presence of one device")
    }
}
