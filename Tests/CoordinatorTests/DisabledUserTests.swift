import CallCore
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// How a coordinator serves a disabled user's devices and the user's backend (docs/protocol.md, section 1, Disabled
/// users).
@Suite struct DisabledUserTests {
    private let world = World()

    @Test func theUsersDevicesAreRefusedAndTheBackendIsServed() {
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob")
        #expect(world.memory.set(alice.user, isDisabled: true))
        world.pass(seconds: 3)
        #expect(world.memory.devices(of: [alice.user])[0].allSatisfy { !$0.isOnline }, "signed out")
        #expect(alice.request(.userBlockList)?.code == .userDisabled)
        #expect(alice.cancel()?.code == .userDisabled)
        #expect(bob.request(.userBlockList)?.code == nil, "others are served")
        #expect(world.stranger("alice/server").request(.userBlockList)?.code == nil)
        #expect(world.memory.set(alice.user, isDisabled: false))
        world.pass(seconds: 3)
        #expect(alice.request(.userBlockList)?.code == nil)
    }
}
