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

    /// No coordinator may have been there when the users were disabled.
    @Test func usersDisabledBeforeTheStartAreSignedOutAndHaveNoPushes() {
        let users = (0...ServiceBounds.signOutsPerReading).map { UserID("user\($0)")! }
        let world = World { memory in
            for user in users {
                let key = PushRegistration.Key(
                    DeviceAddress(userID: user, deviceID: DeviceID("phone")!), .standard, .apnsVoIP)
                _ = memory.register(PushRegistration(key, target: .token("token of \(user)"), digest: "", since: 0))
                _ = memory.set(user, isDisabled: true)
            }
            return memory
        }
        world.pass(seconds: 10)
        #expect(world.memory.registrations(of: users).flatMap { $0 }.isEmpty)
    }
}
