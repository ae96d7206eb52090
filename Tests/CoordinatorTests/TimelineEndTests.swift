import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// How a coordinator lets timelines be sent on as spans (docs/operations.md, Traces).
struct TimelineEndTests {
    private final class Ends {
        var calls: [String] = []
    }

    private static let parent = TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")!
    private let ends = Ends()

    private func world(_ policy: TracePolicy = .all, isSending: Bool = true) -> World {
        var settings = ServiceSettings()
        settings.trace = policy
        let world = World(settings)
        let ends = ends
        if isSending { world.service.onTimelineEnd = { ends.calls.append($0.string) } }
        return world
    }

    private func invite(_ world: World, _ phone: Phone) {
        var message = phone.up(.invite(.init(invitees: [UserID("bob")!], callID: CallID("c")!)))
        message.traceParent = Self.parent
        world.send([message])
    }

    private func origins(_ world: World) async throws -> [String: TraceOrigin] {
        world.pass(200)
        var found: [String: TraceOrigin] = [:]
        for entry in try await world.service.store.timeline(of: CallID("c")!).entries {
            guard case .request(_, let type, _) = entry.step else { continue }
            found[type] = entry.origin
        }
        return found
    }

    @Test func aCallEndsOnceWhoeverEndsIt() {
        let world = world()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        invite(world, alice)
        #expect(ends.calls.isEmpty)
        bob.accept()
        bob.accept()
        #expect(ends.calls == ["c"])
        alice.invite("nobody", callID: "d")
        world.pass(seconds: 100)
        #expect(ends.calls == ["c", "d"], "a deadline ends a call too")
    }

    @Test func aRequestKeepsItsParent() async throws {
        let world = world()
        let alice = world.phone("alice/phone")
        invite(world, alice)
        world.phone("bob/phone").accept()
        let origins = try await origins(world)
        #expect(origins["call.invite"]?.parent == Self.parent)
        let accept = try #require(origins["call.accept"])
        #expect(accept.parent == nil && accept.waited >= 0 && accept.served >= 0)
    }

    @Test func withoutAReceiverNothingIsKept() async throws {
        let world = world(isSending: false)
        invite(world, world.phone("alice/phone"))
        #expect(try await origins(world).isEmpty)
    }

    @Test func aCallWithoutATimelineIsNotTold() {
        let world = world(.share(perTenThousand: 0))
        invite(world, world.phone("alice/phone"))
        world.phone("bob/phone").accept()
        #expect(ends.calls.isEmpty)
    }
}
