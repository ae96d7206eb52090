import CallCore
import SignalingProtocol
import Testing

/// The pushes of a call, their devices and their times (docs/protocol.md, section 7).
@Suite struct PushJudgeTests {
    // MARK: ring

    @Test func aDeviceThatIsNotOnlineIsRungAtOnce() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        #expect(scene.due == ["ring bob/phone fcm"] && scene.next == nil)
        #expect(scene.judgement.due[0].expiresAt == PushScene.start + 60_000)
        #expect(scene.judgement.due[0].inviter == alice)
        scene.isOnline(phone, false)
        #expect(scene.due == ["ring bob/phone fcm"])
    }

    @Test func aDeviceThatIsOnlineHasAWhileForItsAck() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        #expect(scene.due.isEmpty && scene.next == 1_000)
        scene.pass(999)
        #expect(scene.due.isEmpty && scene.next == 1)
        scene.pass(1)
        #expect(scene.due == ["ring bob/phone fcm"] && scene.next == nil)
        scene.ack(phone)
        #expect(scene.due.isEmpty && scene.next == nil)
    }

    @Test func theWhileCountsFromTheInvitation() {
        var scene = PushScene(.advanced, [carol])
        scene.pass(20_000)
        scene.add(timeout: 10)
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        scene.pass(400)
        #expect(scene.next == 600)
    }

    @Test func aDeviceThatHasBeenSilentForTheLeaseIsNotOnline() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        scene.now += 1
        scene.presence[bob] = scene.presence[bob]!.map {
            DevicePresence(
                device: $0.device, session: $0.session, isOnline: true, since: 0, seen: PushScene.start - 600_000)
        }
        #expect(scene.due == ["ring bob/phone fcm"])
    }

    // MARK: late

    /// A push that was due, and did not leave before the ringing was over, is told once.
    @Test(arguments: ["cancelled", "timeout", "answered", "ended", "expired"])
    func whatDidNotLeaveInTimeIsLate(_ end: String) {
        var scene = PushScene(.advanced, [bob, carol])
        scene.register(phone, .fcm)
        scene.pass(3_000)
        switch end {
        case "cancelled": scene.cancel()
        case "timeout": scene.expire()
        case "answered": scene.accept(on: web)
        case "ended":
            scene.accept(carol, on: web)
            scene.end()
        default: scene.pass(57_000)
        }
        #expect(scene.late == ["bob/phone fcm"] && scene.settled == ["bob/phone fcm ring:over"])
        scene.stands(phone, .fcm, ring: .over)
        #expect(scene.late.isEmpty)
        for phase in [PushState.Phase.sent, .trying] {
            scene.stands(phone, .fcm, ring: phase)
            #expect(scene.late.isEmpty, "it has left, or may have")
        }
        scene.stands(phone, .fcm, ring: .trying, isUnsent: true)
        #expect(scene.late == ["bob/phone fcm"])
    }

    @Test func onlyWhatRingsIsLate() {
        var scene = PushScene()
        scene.register(phone, .apnsVoIP)
        scene.register(phone, .apns)
        scene.pass(10)
        scene.cancel()
        #expect(scene.late == ["bob/phone apnsVoIP"])
    }

    @Test func whatWasNotDueIsNotLate() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        scene.pass(900)
        scene.cancel()
        #expect(scene.late.isEmpty, "it had a second for its ack")
        scene = PushScene()
        scene.pass(100)
        scene.register(phone, .fcm, since: scene.now)
        scene.pass(100)
        scene.cancel()
        #expect(scene.late.isEmpty, "it was not registered when the user was invited")
    }

    @Test func whoKnewOfTheCallWasNotLate() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.pass(100)
        scene.check(phone)
        scene.cancel()
        #expect(scene.late.isEmpty)
        scene = PushScene()
        scene.register(phone, .fcm)
        scene.pass(100)
        scene.reject(on: phone)
        #expect(scene.late.isEmpty, "it has answered")
        scene = PushScene()
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        scene.pass(5_000)
        scene.accept(on: web)
        #expect(scene.late.isEmpty, "it may have had its second when the user answered, or not")
    }

    @Test func anAckOfAnySessionEndsTheRingingOfItsDeviceAlone() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.register(web, .webPush)
        scene.ack(phone)
        #expect(scene.due == ["ring bob/web webPush"])
    }

    @Test func aRingCheckCountsAsAck() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.check(phone)
        #expect(scene.due.isEmpty)
    }

    @Test func anAckOfAnEarlierRevisionIsNone() {
        var scene = PushScene(.advanced, [bob, carol])
        scene.register(phone, .fcm)
        scene.ack(phone)
        scene.check(phone)
        scene.reject(on: phone)
        scene.pass(5_000)
        scene.add()
        #expect(scene.due == ["ring bob/phone fcm"])
        scene.check(phone)
        #expect(scene.due.isEmpty)
    }

    @Test func aDeviceWithPushesForCallsGetsNoOtherOfThisKind() {
        var scene = PushScene()
        scene.register(phone, .apns)
        scene.register(phone, .apnsVoIP)
        scene.register(web, .fcm)
        scene.register(web, .webPush)
        #expect(scene.due == ["ring bob/phone apnsVoIP", "ring bob/web fcm", "ring bob/web webPush"])
    }

    @Test func whatTheDeploymentDoesNotServeIsNotThere() {
        var scene = PushScene()
        scene.register(phone, .apnsVoIP, app: AppName("other")!)
        scene.register(phone, .fcm, app: AppName("other")!)
        scene.register(web, .fcm, app: AppName("gone")!)
        #expect(scene.due == ["ring bob/phone fcm"])
    }

    @Test func whatIsSentOrGivenUpIsNotDueAgainAndWhatIsTriedIs() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        for (phase, due) in [(PushState.Phase.sent, []), (.over, []), (.trying, ["ring bob/phone fcm"])] {
            scene.stands(phone, .fcm, ring: phase)
            #expect(scene.due == due)
        }
    }

    @Test func anotherInvitationBeginsAnew() {
        var scene = PushScene(.advanced, [bob, carol])
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .sent)
        scene.reject(on: web)
        scene.add()
        #expect(scene.due == ["ring bob/phone fcm"])
        #expect(scene.judgement.due[0].state.ring == nil)
        #expect(scene.judgement.due[0].state.invitation == scene.machine.call.revision)
    }

    @Test func whoWasNotInvitedIsNotPushed() {
        var scene = PushScene(.advanced)
        scene.register(web, .fcm, of: alice)
        #expect(scene.due.isEmpty)
        scene.cancel()
        #expect(scene.due.isEmpty)
    }

    @Test func toWhomItIsWithheldNothingIsPushed() {
        var scene = PushScene(.common, [bob, carol], withheld: [bob])
        scene.register(phone, .fcm)
        #expect(scene.due.isEmpty && scene.next == nil)
        scene.cancel()
        #expect(scene.due.isEmpty && scene.next == nil)
    }

    @Test func anInvitationThatIsOverRingsNobodyThoughNobodyHasSaidSo() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.pass(60_000)
        #expect(scene.due.isEmpty)
    }

    // MARK: stop

    @Test(arguments: [PushState.Phase.sent, .trying])
    func anAnswerOnAnotherDeviceStopsWhoWasRung(_ phase: PushState.Phase) {
        for answer in [{ $0.accept(on: DeviceID("desk")!) }, { $0.reject(on: DeviceID("desk")!) }]
            as [(inout PushScene) -> Void]
        {
            var scene = PushScene()
            scene.register(phone, .fcm)
            scene.register(web, .webPush)
            scene.stands(phone, .fcm, ring: phase)
            answer(&scene)
            #expect(scene.due == ["stop bob/phone fcm"])
            #expect(scene.judgement.due[0].expiresAt == PushScene.start + 60_000)
            scene.stands(phone, .fcm, ring: phase, stop: .sent)
            #expect(scene.due.isEmpty)
        }
    }

    @Test func theDeviceThatAnsweredIsNotStopped() {
        var scene = PushScene(.advanced)
        scene.register(phone, .fcm)
        scene.register(web, .webPush)
        scene.stands(phone, .fcm, ring: .sent)
        scene.stands(web, .webPush, ring: .sent)
        scene.accept(on: phone)
        #expect(scene.due == ["stop bob/web webPush"])
        #expect(scene.settled == ["bob/phone fcm ring:sent stop:over"])
        // The device is not stopped either when another device takes the call over.
        scene.stands(phone, .fcm, ring: .sent, stop: .over)
        scene.stands(web, .webPush, ring: .sent, stop: .sent)
        scene.join(on: web)
        #expect(scene.due.isEmpty && scene.settled.isEmpty)
    }

    @Test func theEndOfACallStopsWhoWasStillRungAndHadTakenPartBefore() {
        var scene = PushScene(.advanced, [bob, carol])
        scene.register(phone, .fcm)
        scene.accept(carol, on: phone)
        scene.reject(on: DeviceID("desk")!)
        scene.add()
        scene.stands(phone, .fcm, ring: .sent)
        scene.end()
        #expect(scene.due == ["stop bob/phone fcm"])
    }

    @Test func nobodyIsStoppedWhoWasNotRung() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.accept(on: DeviceID("desk")!)
        #expect(scene.due.isEmpty)
        scene.stands(phone, .fcm, ring: .over)
        #expect(scene.due.isEmpty)
        scene.stands(phone, .fcm, ring: .trying, isUnsent: true)
        #expect(scene.due.isEmpty)
        #expect(scene.settled == ["bob/phone fcm ring:over"])
    }

    @Test func appleIsNeverAskedToStop() {
        var scene = PushScene()
        scene.register(phone, .apnsVoIP)
        scene.register(phone, .apns)
        scene.stands(phone, .apnsVoIP, ring: .sent)
        scene.accept(on: web)
        #expect(scene.due.isEmpty)
        // A registration at another platform is asked to stop.
        scene.register(phone, .fcm)
        #expect(scene.due == ["stop bob/phone fcm"])
    }

    @Test func afterTheTimeOfTheRingingNobodyIsStopped() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .sent)
        scene.accept(on: web)
        scene.pass(60_000)
        #expect(scene.due.isEmpty)
    }

    @Test func whoWasInTheCallBeforeIsStoppedWhenTheNextInvitationIsTakenBack() {
        var scene = PushScene(.advanced, [bob, carol])
        scene.reject(on: web)
        scene.add()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .sent)
        scene.cancel()
        #expect(scene.due == ["stop bob/phone fcm"], "that is no missed call")
    }

    // MARK: missed

    @Test(arguments: [true, false])
    func whoMissedTheCallIsTold(_ expires: Bool) {
        var scene = PushScene()
        for platform in PushPlatform.allCases { scene.register(phone, platform) }
        if expires { scene.expire() } else { scene.cancel() }
        #expect(scene.due == ["missed bob/phone apns", "missed bob/phone fcm", "missed bob/phone webPush"])
        #expect(scene.judgement.due.allSatisfy { !$0.wasRung && $0.expiresAt == scene.now + 3_600_000 })
        scene.stands(phone, .apnsVoIP, ring: .sent)
        #expect(scene.judgement.due.allSatisfy { $0.wasRung })
        scene.pass(3_600_000)
        #expect(scene.due.isEmpty)
    }

    /// `call.end` leaves the states of pending members: no state of such a member tells when the ringing ended.
    @Test func whoWasPendingWhenTheCallWasEndedIsTold() {
        var scene = PushScene(.advanced, [bob, carol])
        for platform in PushPlatform.allCases { scene.register(phone, platform) }
        scene.register(web, .fcm)
        scene.isOnline(web)
        scene.ack(web)
        scene.accept(carol, on: phone)
        scene.stands(phone, .apnsVoIP, ring: .sent)
        scene.pass(5_000)
        scene.register(DeviceID("desk")!, .fcm, since: scene.now + 1)
        scene.end()
        #expect(scene.due == ["missed bob/phone apns", "missed bob/phone fcm", "missed bob/phone webPush"])
        #expect(scene.judgement.due.allSatisfy { $0.wasRung && $0.expiresAt == scene.now + 3_600_000 })
        scene.ack(phone, scene.machine.call.revision - 1)
        #expect(scene.due.count == 3, "that of a revision before the end")
        scene.ack(phone)
        #expect(scene.due.isEmpty && scene.next == nil)
    }

    @Test func whoIsOnlineIsToldWhenRungAndWithoutAnAck() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.isOnline(phone)
        scene.pass(2_000)
        scene.cancel()
        #expect(scene.due.isEmpty && scene.next == nil, "the event is enough")
        scene.stands(phone, .fcm, ring: .sent)
        #expect(scene.due.isEmpty && scene.next == 1_000)
        scene.pass(1_000)
        #expect(scene.due == ["missed bob/phone fcm"])
        scene.ack(phone, 1)
        #expect(scene.due == ["missed bob/phone fcm"], "that of the invitation")
        scene.ack(phone)
        #expect(scene.due.isEmpty && scene.next == nil)
    }

    @Test func aRingCheckIsNoAckOfTheEnd() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .sent)
        scene.check(phone)
        scene.cancel()
        #expect(scene.due == ["missed bob/phone fcm"])
    }

    @Test func whoRegistersAfterTheEndHasNotMissedIt() {
        var scene = PushScene()
        scene.cancel()
        scene.register(phone, .fcm, since: scene.now + 1)
        #expect(scene.due.isEmpty)
        // A registration that is made anew while its push is tried is told.
        scene.stands(phone, .fcm, missed: .trying)
        #expect(scene.due == ["missed bob/phone fcm"])
    }

    @Test func missedIsNotStoppedToo() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .sent)
        scene.expire()
        #expect(scene.due == ["missed bob/phone fcm"])
    }

    // MARK: Pushes that have not left

    /// Found by simulation: the provider had refused the push, and the next attempt was never made.
    @Test func missedIsPutOffForWhoeverComesOnline() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.expire()
        scene.stands(phone, .fcm, ring: .sent, missed: .trying, isUnsent: true)
        #expect(scene.due == ["missed bob/phone fcm"] && scene.settled.isEmpty)
        scene.isOnline(phone)
        #expect(scene.due.isEmpty && scene.settled == ["bob/phone fcm ring:sent"] && scene.next == 1_000)
        scene.ack(phone)
        #expect(scene.settled == ["bob/phone fcm ring:sent missed:over"])
    }

    @Test func whatHasNotLeftIsTakenBackWhenItIsNotDue() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .trying, isUnsent: true)
        #expect(scene.due == ["ring bob/phone fcm"] && scene.settled.isEmpty)
        // The device came online: the push will be due later.
        scene.isOnline(phone)
        #expect(scene.due.isEmpty && scene.settled == ["bob/phone fcm "] && scene.next == 1_000)
        scene.ack(phone)
        #expect(scene.settled == ["bob/phone fcm ring:over"])
        scene.cancel()
        #expect(scene.settled == ["bob/phone fcm ring:over"])
    }

    @Test func whatMayHaveLeftIsNot() {
        var scene = PushScene()
        scene.register(phone, .fcm)
        scene.stands(phone, .fcm, ring: .trying)
        scene.ack(phone)
        #expect(scene.due.isEmpty && scene.settled.isEmpty)
    }

    @Test func aRegistrationThatIsGoneIsSentNothing() {
        var scene = PushScene()
        scene.stands(phone, .fcm, ring: .sent)
        scene.cancel()
        #expect(scene.due.isEmpty && scene.settled.isEmpty)
    }
}
