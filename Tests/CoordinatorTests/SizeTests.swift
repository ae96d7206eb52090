import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// A message of the service has at most 256 KiB (docs/protocol.md, section 1); the world checks each message.
struct SizeTests {
    /// 2048 bytes that take six bytes each in JSON.
    private let heavy = String(repeating: "\u{1}", count: 2048)

    private func world(maxMembers: Int = 10) -> World {
        var settings = ServiceSettings()
        settings.calls.oneActiveCall = false
        settings.calls.maxMembers = maxMembers
        settings.limits.pair.burst = 50
        settings.limits.pairBytes.rate = 0
        settings.limits.calleeBytes.rate = 0
        settings.quotas.pairInvitations = 50
        // The tests are about the size of a message, and not about the number of messages.
        settings.limits.sentBytes.rate = 0
        return World(settings)
    }

    @Test func welcomeListsFewerCallsRatherThanMoreBytes() throws {
        let world = world()
        let alice = world.phone("alice/phone")
        for index in 0..<40 {
            world.pass(1)
            alice.invite("bob", callID: "c\(index)", mode: .advanced) { $0.extendedData = heavy }
        }
        alice.comeOnline()
        let welcome = try #require(alice.welcomes.last)
        #expect((10..<40).contains(welcome.calls.count))
        #expect(welcome.calls.first?.callID == CallID("c39"), "the newest are kept")
        #expect(alice.names.count == 0 || alice.events.allSatisfy { $0.name != .invited })
    }

    @Test func aCallWithHeavyMembersGoesOutWithoutTheirData() throws {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.request(
            .invite(
                .init(invitees: userIDs("u0"), callID: callID, mode: .advanced, extendedData: heavy, autoEnd: false)))
        for index in 0..<29 {
            let phone = world.phone("u\(index)/phone")
            if index > 0 { alice.add("u\(index)") }
            phone.request(.accept(.init(callID: callID, extendedData: heavy)))
            if index < 28 { phone.request(.quit(.init(callID: callID, extendedData: heavy))) }
        }
        let call = try #require(world.stored(callID))
        #expect(call.members.count == 30)
        let outcome = try #require(alice.get()?.call)
        #expect(outcome.members.count == 30)
        #expect(outcome.extendedData == heavy)
        #expect(outcome.members.allSatisfy { $0.extendedData == nil })
        #expect(world.service.counters[.eventsTrimmed] > 0)
        alice.comeOnline()
        #expect(alice.welcomes.last?.session == "s2")
    }

    @Test func aCallCannotHaveMembersWithoutEnd() {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.invite("u0", mode: .advanced)
        var refused = 0
        for index in 1...40 {
            if alice.add("u\(index)")?.code == .callFull { refused += 1 }
            alice.cancel(invitees: ["u\(index)"])
        }
        #expect(world.stored(callID)!.members.count == 30)
        #expect(refused == 12)
    }

    @Test func requestsBeyondTheLimitAreTooLarge() {
        var settings = ServiceSettings()
        settings.maxPayload = 1000
        let world = World(settings)
        let alice = world.phone("alice/phone")
        _ = world.lines()
        #expect(alice.invite("bob") { $0.extendedData = String(repeating: "x", count: 1000) }?.code == .tooLarge)
        world.send("bellwire/v1/up/alice/phone", String(repeating: "x", count: 1001))
        world.send("bellwire/v1/up/alice/phone", String(repeating: "x", count: 1000))
        #expect(
            world.lines() == ["alice/phone tooLarge", "alice/phone error tooLarge", "alice/phone error badRequest"])
    }
}
