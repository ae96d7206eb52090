import CallCore
import SignalingProtocol
import Testing

/// Section 2 of the protocol: "A repeated request that succeeded changes nothing, however late it comes, and gets the
/// same outcome. The last 16 requests of a device per call are remembered."
@Suite struct RequestOutcomeTests {
    private func key(_ user: UserID, _ device: DeviceID, _ number: Int) -> RequestKey {
        RequestKey(device: DeviceAddress(userID: user, deviceID: device), requestID: RequestID("r\(number)")!)
    }

    @Test func anOutcomeIsFoundByDeviceAndRequest() throws {
        let scene = try Scene(.advanced)
        let outcome = RequestOutcome(
            key: key(alice, phone, 1), type: "call.invite", offline: [bob],
            errors: [UserError(userID: carol, code: .invalidState)],
            merged: true)
        scene.machine.remember(outcome)
        #expect(scene.call.outcome(of: key(alice, phone, 1)) == outcome)
        #expect(scene.call.outcome(of: key(alice, phone, 2)) == nil)
        #expect(scene.call.outcome(of: key(alice, web, 1)) == nil)
        #expect(scene.call.outcome(of: key(bob, phone, 1)) == nil)
    }

    @Test func theLast16RequestsOfADeviceAreRemembered() throws {
        let scene = try Scene(.advanced)
        for number in 1...40 {
            scene.machine.remember(RequestOutcome(key: key(alice, phone, number), type: "call.invite"))
        }
        #expect(scene.call.outcomes.map(\.key) == (25...40).map { key(alice, phone, $0) })
    }

    @Test func oneDevicesRequestsDoNotPushOutAnothers() throws {
        let scene = try Scene(.advanced)
        scene.machine.remember(RequestOutcome(key: key(bob, phone, 1), type: "call.invite"))
        for number in 1...40 {
            scene.machine.remember(RequestOutcome(key: key(alice, phone, number), type: "call.invite"))
        }
        #expect(scene.call.outcome(of: key(bob, phone, 1)) != nil)
    }

    @Test func atMost128RequestsAreRememberedInAll() throws {
        let scene = try Scene(.advanced)
        for number in 1...16 {
            for device in 1...20 {
                scene.machine.remember(
                    RequestOutcome(key: key(alice, DeviceID("d\(device)")!, number), type: "call.invite"))
            }
        }
        #expect(scene.call.outcomes.count == 128)
        #expect(scene.call.outcome(of: key(alice, DeviceID("d20")!, 16)) != nil)
        #expect(scene.call.outcome(of: key(alice, DeviceID("d1")!, 1)) == nil)
    }

    @Test func theRequestThatMadeTheCallIsKnownForEver() throws {
        let scene = try Scene(.advanced)
        for number in 1...200 {
            scene.machine.remember(RequestOutcome(key: key(alice, phone, number), type: "call.invite"))
        }
        #expect(scene.call.origin.requestID == RequestID("invite")!)
        #expect(scene.call.origin.device == DeviceAddress(userID: alice, deviceID: phone))
    }

    @Test func rememberingIsNoChangeThatAnybodySees() throws {
        let scene = try Scene(.advanced)
        let before = scene.call.snapshot
        scene.machine.remember(RequestOutcome(key: key(alice, phone, 1), type: "call.invite"))
        #expect(scene.call.snapshot == before)
    }
}
