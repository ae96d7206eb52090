import SignalingProtocol
import Support
import Testing

@testable import BellwireClientCore

/// A flood of ringing calls cannot push out the calls that this device is engaged in (`ClientMachine+room.swift`).
@Suite struct FloodTests {
    private let own = CallID("own")!
    private let mallory = UserID("mallory")!

    /// A call that rings here, the `number`th of a flood.
    private func flood(_ number: Int, revision: Int = 1, by inviter: UserID? = nil) -> CallSnapshot {
        ringing(CallID("flood-\(number)")!, by: inviter ?? mallory, at: Int64(number), revision: revision)
    }

    private func ringing(_ id: CallID, by inviter: UserID, at: Int64, revision: Int = 1) -> CallSnapshot {
        CallSnapshot(
            callID: id, revision: revision, mode: .common, state: .ringing, inviter: inviter, createdAt: at,
            endedAt: nil, timeout: 60,
            members: [
                MemberSnapshot(userID: inviter, state: .accepted, device: phone, updatedAt: at),
                MemberSnapshot(
                    userID: bob, state: .inviting, device: nil, invitedBy: inviter, expiresAt: at + 60_000,
                    updatedAt: at),
            ])
    }

    private func ended(_ number: Int) -> CallSnapshot {
        var call = flood(number, revision: 2)
        call.state = .ended
        call.members[1].state = .cancelled
        return call
    }

    /// A device that talks in an advanced call.
    private func talkingDevice() -> Device {
        var device = Device.online()
        device.receive(.invited, call(1, mode: .advanced, id: own), expiresIn: 60_000)
        device.send("accept", .accept(.init(callID: own)))
        device.respond("accept", call(2, .active, mode: .advanced, bob: .accepted, bobDevice: phone, id: own))
        device.take()
        return device
    }

    private func isInOwnCall(_ device: Device) -> Bool {
        device.machine.knownCall(own)?.isLive == true && device.machine.knownCall(own)?.nextHeartbeat != nil
            && !device.told.contains { if case .gone(let call) = $0 { call.callID == own } else { false } }
    }

    @Test func threeHundredInvitationsOfAStrangerLeaveTheCallInWhichTheDeviceTalks() {
        var device = talkingDevice()
        for number in 0..<300 {
            device.receive(.invited, flood(number), expiresIn: 60_000)
            device.pass(10)
        }
        #expect(isInOwnCall(device))
        #expect(device.machine.calls.count == device.machine.configuration.knownCalls)
        #expect(device.refused.count == 45, "the newest ones are refused")
        #expect(device.acks.count == 255, "what is refused is not acked")
        device.pass(20_000)
        #expect(!device.heartbeatTimes(since: 0).isEmpty)
    }

    @Test func aFloodInAnyOrderWithCallsThatEndLeavesTheOwnCall() {
        for seed in 0..<8 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            var device = talkingDevice()
            for _ in 0..<1_500 {
                let number = Int(random.next() % 400)
                switch random.next() % 8 {
                case 0: device.receive(.cancelled, ended(number))
                case 1: device.pass(Int64(random.next() % 50))
                case 2: device.receive(.invited, flood(number, by: UserID("m\(number % 7)")!), expiresIn: 60_000)
                default: device.receive(.invited, flood(number), expiresIn: 60_000)
                }
                #expect(device.machine.calls.count <= device.machine.configuration.knownCalls)
            }
            #expect(isInOwnCall(device), "seed \(seed)")
        }
    }

    @Test func aFriendRingsThroughTheFloodOfAStranger() {
        var device = Device.online()
        for number in 0..<300 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        device.take()
        let friend = ringing(CallID("friend")!, by: carol, at: 1_000)
        device.receive(.invited, friend, expiresIn: 60_000)
        #expect(device.acks == [1])
        #expect(device.told.count == 2 && device.told[0] == .gone(flood(255)), "the newest of the flood gives way")
        for number in 300..<600 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        #expect(device.machine.knownCall(friend.callID)?.isLive == true)
    }

    @Test func theOwnInvitationIsFollowedInTheMiddleOfAFlood() {
        var device = Device.online()
        for number in 0..<300 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        device.take()
        let invite = Request.Body.invite(.init(invitees: [carol], callID: own, mode: .advanced))
        device.send("invite", invite)
        let mine = CallSnapshot(
            callID: own, revision: 1, mode: .advanced, state: .ringing, inviter: bob, createdAt: 1_000, timeout: 60,
            members: [
                MemberSnapshot(userID: bob, state: .accepted, device: phone, updatedAt: 1_000),
                MemberSnapshot(
                    userID: carol, state: .inviting, device: nil, invitedBy: bob, expiresAt: 61_000, updatedAt: 1_000),
            ])
        device.respond("invite", mine)
        #expect(device.outcomes == ["invite ok"])
        for number in 300..<600 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        #expect(isInOwnCall(device))
    }

    @Test func aCallThatTheAppIsAnsweringIsNotPushedOut() {
        var device = Device.online()
        for number in 0..<256 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        device.send("accept", .accept(.init(callID: flood(255).callID)))
        device.receive(.invited, ringing(CallID("friend")!, by: carol, at: 1_000), expiresIn: 60_000)
        #expect(device.machine.knownCall(flood(255).callID)?.isLive == true)
        #expect(device.machine.knownCall(flood(254).callID) == nil)
    }

    @Test func whatWasRefusedRingsWhenItComesAgainAndThereIsRoom() {
        var device = Device.online()
        for number in 0..<257 { device.receive(.invited, flood(number), expiresIn: 60_000) }
        #expect(device.refused == [flood(256).callID])
        device.receive(.cancelled, ended(3))
        device.take()
        device.receive(.invited, flood(256), expiresIn: 59_000)
        #expect(device.told.count == 1 && device.acks == [1])
    }

    @Test func aDeviceThatIsInAsManyCallsAsCanBeKnownBeginsNoMore() {
        var configuration = ClientMachine.Configuration()
        configuration.knownCalls = 2
        var device = Device.online(alice, configuration: configuration)
        func invite(_ id: String) -> Request.Body { .invite(.init(invitees: [bob], callID: CallID(id)!)) }
        device.send("r1", invite("c1"))
        device.respond("r1", call(1, id: CallID("c1")!))
        device.send("r2", invite("c2"))
        device.send("r3", invite("c3"))
        #expect(device.outcomes == ["r1 ok", "r3 tooManyRequests"])
        device.receive(.userStateChanged, call(2, .ended, bob: .rejected, id: CallID("c1")!))
        device.send("r4", invite("c4"))
        #expect(device.sentRequests.contains("r4"))
    }
}
