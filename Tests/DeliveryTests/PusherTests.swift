import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Testing

@testable import Delivery

/// How a worker handles calls for which a device may have to be woken (docs/decisions/0021), in virtual time.
@Suite struct PusherTests {
    private let rig = PushRig()
    private var providers: Providers { rig.providers }

    // MARK: ring

    @Test func aSleepingDeviceIsRungOnceAndTheCallIsLetGo() throws {
        rig.register("phone", .apnsVoIP)
        rig.invite()
        #expect(providers.shown == ["ring phone.apnsVoIP"])
        let request = try #require(providers.open.first)
        #expect(request.handOverBefore == rig.clock.boot + 100)
        let body = String(decoding: request.body, as: UTF8.self)
        #expect(
            body.contains(#""check":"https:\/\/ring.example\/v1\/ring\/c?user=bob&device=phone&key="#)
                || body.contains(#""check":"https://ring.example/v1/ring/c?user=bob&device=phone&key="#))
        #expect(rig.states() == ["phone apnsVoIP ring:trying"])
        providers.answer(200)
        rig.turn()
        #expect(rig.states() == ["phone apnsVoIP ring:sent"])
        #expect(rig.told() == ["ring apnsVoIP sent 200"])
        #expect(rig.count(.apnsVoIP, .ring, .sent) == 1)
        #expect(rig.backlog == 0)
        rig.pass(5_000)
        #expect(providers.sent.count == 1)
    }

    // MARK: A target that changes while it rings

    @Test func anotherTokenThatIsRegisteredWhileItRingsIsRung() {
        rig.register("phone", .fcm, token: "t1")
        rig.invite()
        #expect(providers.shown == ["ring t1"])
        providers.answer(200)
        rig.turn()
        // The same token is not rung again.
        rig.register("phone", .fcm, token: "t1")
        rig.commit("c")
        rig.turn()
        #expect(providers.open.isEmpty)
        rig.register("phone", .fcm, token: "t2")
        rig.commit("c")
        rig.turn()
        #expect(providers.shown == ["ring t2"])
        providers.answer(200)
        rig.turn()
        rig.commit("c")
        rig.pass(2_000)
        #expect(providers.open.isEmpty && rig.told() == ["ring fcm sent 200", "ring fcm sent 200"])
        rig.accept(on: "desk")
        rig.turn()
        #expect(providers.shown == ["stop t2"])
    }

    /// The former token's attempts and waiting time do not matter.
    @Test func anotherTokenIsRungThoughTheFormerOneWasRefused() throws {
        rig.register("phone", .apns, token: "a1")
        rig.invite()
        let first = try #require(providers.open.first)
        providers.answer(503, retryAfter: 50)
        rig.turn()
        rig.register("phone", .apns, token: "a2")
        rig.commit("c")
        rig.turn()
        #expect(providers.shown == ["ring a2"], "the pause was the other one's")
        let second = try #require(providers.open.first)
        func id(_ request: HTTPRequest) -> String? { request.headers.first { $0.name == "apns-id" }?.value }
        #expect(id(first) != nil && id(first) != id(second))
        providers.answer(400, body: #"{"reason":"BadDeviceToken"}"#)
        rig.turn()
        rig.register("phone", .apns, token: "a3")
        rig.commit("c")
        rig.turn()
        #expect(providers.shown == ["ring a3"])
    }

    @Test func whileTheFormerTokenIsUnderWayTheOtherOneWaits() {
        rig.register("phone", .apns, token: "a1")
        rig.invite()
        rig.register("phone", .apns, token: "a2")
        rig.commit("c")
        rig.pass(500)
        #expect(providers.shown == ["ring a1"])
        providers.answer(200)
        rig.turn()
        #expect(providers.shown == ["ring a2"])
    }

    /// Each token counts with its device.
    @Test func everNewTokensAreNotRungWithoutEnd() {
        rig.register("phone", .apns, token: "a0")
        rig.invite()
        for number in 1...20 {
            if !providers.open.isEmpty { providers.answer(200) }
            rig.turn()
            rig.register("phone", .apns, token: "a\(number)")
            rig.commit("c")
            rig.turn()
        }
        #expect(providers.sent.count == PushLimits.perInviter)
        #expect(rig.count(.apns, .ring, .limited) == 11)
    }

    @Test func whoeverWasRungByTheFormerTokenIsStopped() {
        rig.register("phone", .webPush, token: "w1")
        rig.invite()
        providers.answer(201)
        rig.turn()
        rig.register("phone", .webPush, token: "w2")
        rig.accept(on: "desk")
        rig.turn()
        #expect(providers.sent.count == 2, "a ring and a stop")
        providers.answer(201)
        rig.turn()
        #expect(rig.told() == ["ring webPush sent", "stop webPush sent"])
    }

    @Test func aDeviceThatIsOnlineIsRungAfterAWhile() {
        rig.register("phone", .apns)
        rig.comeOnline("phone")
        rig.invite()
        #expect(providers.sent.isEmpty)
        rig.pass(990)
        #expect(providers.sent.isEmpty)
        rig.pass(30)
        #expect(providers.shown == ["ring phone.apns"])
    }

    @Test func anAckStopsItBeforeItLeaves() {
        rig.register("phone", .apns)
        rig.comeOnline("phone")
        rig.invite()
        rig.pass(900)
        rig.ack(by: "phone")
        rig.pass(5_000)
        #expect(providers.sent.isEmpty && rig.backlog == 0 && rig.told().isEmpty)
    }

    @Test func anAckAfterTheFirstReadingStopsItToo() {
        rig.register("phone", .apns)
        var looks = 0
        rig.clock.onLook = { [rig] in
            looks += 1
            // The worker looks at the clock twice for the first reading.
            if looks == 3 { rig.ack(by: "phone") }
        }
        rig.invite()
        rig.pass(1_000)
        #expect(looks >= 3 && providers.sent.isEmpty && rig.told().isEmpty)
    }

    @Test func aReadingThatIsTooOldIsJudgedAnew() {
        rig.register("phone", .apns)
        rig.invite()
        providers.giveBack()
        rig.turn()
        #expect(providers.shown == ["ring phone.apns"], "there is still reason to")
        #expect(rig.told().isEmpty, "that was no attempt")
        rig.ack(by: "phone")
        providers.giveBack()
        rig.turn()
        #expect(providers.shown.isEmpty)
        #expect(rig.states() == ["phone apns ring:over"])
        #expect(rig.backlog == 0)
    }

    @Test func oneThatComesOnlineBeforeItLeavesHasItsWhile() {
        rig.register("phone", .apns)
        rig.invite()
        rig.comeOnline("phone")
        providers.giveBack()
        rig.turn()
        #expect(providers.shown.isEmpty && rig.states() == ["phone apns"])
        rig.pass(1_100)
        #expect(providers.shown == ["ring phone.apns"])
    }

    @Test func aDeviceThatRegistersWhileItRingsIsRung() {
        rig.register("phone", .apns)
        rig.invite()
        providers.answer(200)
        rig.turn()
        rig.register("web", .webPush)
        rig.commit("c")
        #expect(providers.shown == ["hidden web.webPush"])
    }

    /// A repeated release would let go of the call that the same worker has taken since, and holds.
    @Test func whatMayHaveBeenLetGoIsNotLetGoAgain() {
        rig.register("phone", .apns)
        rig.comeOnline("phone")
        rig.doubtful.answersToLose = 1
        rig.invite()
        #expect(rig.holder() == nil && rig.backlog == 1)
        rig.register("desk", .apns)
        rig.commit("c")
        #expect(providers.shown == ["ring desk.apns"])
        for _ in 0..<10 {
            #expect(rig.holder() == rig.pusher.worker)
            rig.pass(50)
        }
    }

    @Test func whoStopsLetsNoCallGoWhileAPushOfItMayLeave() {
        rig.register("phone", .apns)
        rig.invite()
        #expect(providers.shown == ["ring phone.apns"])
        rig.pusher.stop()
        rig.turn(after: 99)
        #expect(rig.holder() == rig.pusher.worker && !rig.pusher.hasStopped)
        rig.turn(after: 1)
        #expect(rig.holder() == nil && rig.backlog == 1 && rig.pusher.hasStopped)
    }

    // MARK: stop and missed

    @Test func whoAnswersElsewhereStopsTheOthers() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(200)
        rig.turn()
        rig.accept(on: "desk")
        #expect(providers.shown == ["stop phone.fcm"])
        providers.answer(200)
        rig.turn()
        #expect(rig.states() == ["phone fcm ring:sent stop:sent"])
        #expect(rig.told() == ["ring fcm sent 200", "stop fcm sent 200"])
    }

    @Test func aStopWaitsForTheAnswerOfItsRing() {
        rig.register("phone", .fcm)
        rig.register("tablet", .fcm)
        rig.invite()
        providers.answer(200, 1)
        rig.turn()
        rig.accept(on: "desk")
        #expect(providers.shown == ["ring phone.fcm", "stop tablet.fcm"], "and nothing else waits")
        providers.answer(200)
        rig.turn()
        #expect(providers.shown == ["stop tablet.fcm", "stop phone.fcm"])
    }

    @Test func otherProcessesCommitsAreSeenWhileSomethingIsUnderWay() {
        rig.register("phone", .fcm)
        rig.register("tablet", .fcm)
        rig.invite()
        providers.answer(200, 1)
        rig.turn()
        rig.accept(on: "desk", hints: false)
        rig.pass(260)
        #expect(providers.shown == ["ring phone.fcm", "stop tablet.fcm"])
    }

    @Test func whoMissedItIsTold() {
        rig.register("phone", .apnsVoIP)
        rig.register("phone", .apns)
        rig.invite()
        providers.answer(200)
        rig.turn()
        rig.cancel()
        #expect(providers.shown == ["missed phone.apns"])
        providers.answer(200)
        rig.turn()
        #expect(rig.told() == ["ring apnsVoIP sent 200", "missed apns sent 200"])
        #expect(rig.backlog == 0)
    }

    // MARK: late

    @Test func aRingThatWaitedForItsProviderUntilTheEndIsLate() {
        for number in 0..<8 { rig.register("d\(number)", .webPush) }
        rig.invite()
        #expect(providers.open.count == PushSlots.perUser)
        rig.pass(1_000)
        rig.cancel()
        #expect(rig.told().count { $0 == "ring webPush late" } == 3)
        #expect(rig.count(.webPush, .ring, .late) == 3)
        while !providers.open.isEmpty { providers.answer(201) }
        rig.pass(2_000)
        #expect(rig.told().count { $0 == "ring webPush late" } == 3, "once each")
    }

    @Test func aRingThatWasToBeTriedAgainIsLate() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(503)
        rig.turn()
        rig.accept(on: "desk")
        rig.pass(2_000)
        #expect(rig.told() == ["ring fcm failed 503", "ring fcm late"] && rig.backlog == 0)
    }

    @Test func aRingThatNobodyCameToIsLate() {
        rig.register("phone", .apns)
        rig.pusher.stop()
        rig.turn()
        rig.invite()
        rig.clock.now += 5_000
        rig.cancel()
        rig.another()
        rig.pass(2_000)
        #expect(rig.told() == ["ring apns late"], "and then it is told of the missed call")
        #expect(providers.shown == ["missed phone.apns"])
        providers.answer(200)
        rig.pass(2_000)
        #expect(rig.told() == ["ring apns late", "missed apns sent 200"] && rig.backlog == 0)
    }

    @Test func whoHasAckedOrAnsweredIsNotLate() {
        rig.register("phone", .apns)
        rig.invite()
        providers.giveBack()
        rig.ack(by: "phone")
        rig.pass(1_000)
        rig.cancel()
        rig.register("tablet", .fcm)
        rig.invite("d")
        #expect(providers.shown.contains("ring tablet.fcm"))
        providers.giveBack(providers.shown.firstIndex(of: "ring tablet.fcm")!)
        rig.accept("d", on: "tablet")
        rig.pass(1_000)
        #expect(!rig.told().contains("ring apns late") && !rig.told("d").contains("ring fcm late"))
    }

    // MARK: Retries

    @Test func itIsTriedAgainLaterAndLaterWhileItsTimeLasts() {
        rig.register("phone", .apns)
        rig.invite()
        var waits: [Milliseconds] = []
        for _ in 0..<6 {
            let before = rig.clock.now
            providers.answer(503)
            rig.turn()
            while providers.open.isEmpty, rig.clock.now < before + 20_000 { rig.pass(10) }
            waits.append(rig.clock.now - before)
        }
        #expect(
            zip(waits, [200, 500, 1_000, 2_000, 4_000, 8_000]).allSatisfy { ($1...($1 + 40)).contains($0) }, "\(waits)")
        #expect(Set(providers.sent.map { $0.headers.first { $0.name == "apns-id" }!.value }).count == 1)
        #expect(rig.told() == Array(repeating: "ring apns failed 503", count: 6))
        providers.answer(200)
        rig.turn()
        #expect(rig.states() == ["phone apns ring:sent"])
    }

    @Test func whatTheProviderAsksForIsHeeded() {
        rig.register("phone", .apns)
        rig.invite()
        providers.answer(429, retryAfter: 20)
        rig.pass(19_900)
        #expect(providers.open.isEmpty)
        rig.pass(200)
        #expect(providers.shown == ["ring phone.apns"])
        providers.answer(429, retryAfter: 3_600)
        rig.turn()
        #expect(rig.told().last == "ring apns late")
        #expect(rig.states() == ["phone apns ring:over"])
        #expect(rig.backlog == 0)
    }

    @Test func aRetryIsJudgedAnew() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(503)
        rig.turn()
        rig.accept(on: "desk")
        rig.pass(2_000)
        #expect(providers.sent.count == 1, "it was never rung, and is not stopped")
        #expect(rig.states() == ["phone fcm ring:over"])
        #expect(rig.backlog == 0)
    }

    @Test func whatMayHaveArrivedIsStopped() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(nil)
        rig.turn()
        rig.accept(on: "desk")
        #expect(providers.shown == ["stop phone.fcm"])
    }

    @Test func whatComesTooLateIsTold() {
        rig.register("phone", .apns)
        rig.invite()
        for _ in 0..<30 {
            if !providers.open.isEmpty { providers.answer(503) }
            rig.pass(2_000)
        }
        if !providers.open.isEmpty { providers.answer(503) }
        rig.pass(1)
        rig.expire()
        #expect(rig.told().count { $0 == "ring apns late" } == 1)
        #expect(providers.shown == ["missed phone.apns"])
    }

    @Test func aNewTokenIsTriedOnce() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(401)
        rig.turn()
        #expect(providers.shown == ["ring phone.fcm"])
        providers.answer(401)
        rig.turn()
        #expect(providers.open.isEmpty)
        #expect(rig.told() == ["ring fcm failed 401", "ring fcm refused 401"])
        #expect(rig.states() == ["phone fcm ring:over"])
    }

    @Test func withoutATokenItIsTriedAgain() {
        providers.givesTokens = false
        rig.register("phone", .fcm)
        rig.invite()
        rig.turn()
        #expect(providers.open.isEmpty && rig.told().count == 1)
        providers.givesTokens = true
        rig.pass(5_000)
        #expect(providers.shown == ["ring phone.fcm"])
    }

    // MARK: Registrations

    @Test func whatIsGoneEndsAndWhatIsMadeAnewIsRung() {
        rig.register("phone", .webPush)
        rig.invite()
        rig.clock.now += 10
        providers.answer(410)
        rig.turn()
        #expect(rig.store.registrations(of: [bob]) == [[]])
        #expect(rig.told() == ["ring webPush gone"], "of strangers' servers nothing is told")
        #expect(rig.backlog == 0)
        rig.register("phone", .webPush, token: "new")
        rig.commit("c")
        #expect(providers.shown == ["hidden new"])
    }

    @Test func whatIsRefusedIsNotTriedAgain() {
        rig.register("phone", .apns)
        rig.invite()
        providers.answer(400, body: #"{"reason":"BadDeviceToken"}"#)
        rig.turn()
        rig.pass(3_000)
        #expect(rig.told() == ["ring apns refused 400 BadDeviceToken"] && providers.sent.count == 1)
        #expect(rig.store.registrations(of: [bob])[0].count == 1)
    }

    /// An operator hears of the reason, at most once a minute for each platform.
    @Test func refusalsAreTold() {
        var news: [PushNews] = []
        rig.pusher.onNews = { news.append($0) }
        rig.register("phone", .apns)
        for number in 0..<3 {
            rig.invite("c\(number)")
            providers.answer(403, body: #"{"reason":"InvalidProviderToken"}"#)
            rig.turn()
        }
        #expect(
            news == [PushNews(platform: .apns, outcome: .refused, status: 403, reason: "InvalidProviderToken")])
    }

    @Test func aPhoneThatWasHandedOnDoesNotRingForItsFormerOwner() {
        rig.register("phone", .apns, token: "shared")
        rig.invite()
        rig.register("phone", .apns, of: UserID("carol")!, token: "shared")
        providers.giveBack()
        rig.pass(3_000)
        #expect(providers.open.isEmpty && rig.told().isEmpty)
    }

    @Test func aDeviceIsSentSoManyBecauseOfOneInviter() {
        rig.register("phone", .apns)
        for number in 0..<12 {
            rig.invite("c\(number)")
            if !providers.open.isEmpty { providers.answer(200) }
            rig.turn()
        }
        #expect(providers.sent.count == PushLimits.perInviter)
        #expect(rig.told("c11") == ["ring apns limited"] && rig.states("c11") == ["phone apns ring:over"])
        #expect(rig.count(.apns, .ring, .limited) == 2)
        rig.invite("d", by: UserID("dave")!)
        #expect(providers.shown == ["ring phone.apns"])
    }

    // MARK: Places with providers

    @Test func aSlowProviderHoldsUpNobodyElse() {
        rig.register("phone", .apns)
        for number in 0..<150 { rig.invite("c\(number)", by: UserID("u\(number)")!) }
        // Thirty pushes may go to a device within a minute.
        #expect(providers.open.count == 30)
        rig.register("web", .webPush)
        rig.invite("last", by: UserID("last")!)
        #expect(providers.shown.last == "hidden web.webPush")
    }

    @Test func noMoreAreUnderWayThanThereArePlaces() {
        let users = (0..<4).map { UserID("user\($0)")! }
        for user in users[..<3] {
            for number in 0..<5 { rig.register("d\(number)", .webPush, of: user, token: "\(user)\(number)") }
        }
        for number in 0..<5 {
            rig.register("e\(number)", .webPush, of: users[3], token: "https://other.example/\(number)")
        }
        rig.invite("c", users)
        #expect(providers.open.count { $0.url.hasPrefix("https://web.example/") } == PushSlots.perHost)
        #expect(providers.open.count { $0.url.hasPrefix("https://other.example/") } == 5)
        for _ in 0..<4 {
            providers.answer(201, providers.open.firstIndex { $0.url.hasPrefix("https://web.example/") }!)
        }
        rig.turn()
        #expect(providers.sent.count == 19)
        rig.pass(3_000)
        #expect(providers.sent.count == 19)
    }

    @Test func itDoesNotTurnWithoutEndWhileItWaits() {
        func waits() -> Bool { rig.pusher.nextTurn > rig.clock.boot }
        #expect(waits(), "for anything at all")
        for number in 0..<12 { rig.register("d\(number)", .webPush) }
        rig.invite()
        #expect(providers.open.count == PushSlots.perUser && waits(), "for an answer, and for a place")
        providers.answer(503)
        rig.turn()
        #expect(waits(), "for the next attempt")
        providers.givesTokens = false
        rig.register("phone", .fcm)
        rig.commit("c")
        #expect(waits(), "for a token")
    }

    @Test func noMoreCallsAreHeldThanCanBe() {
        rig.register("phone", .webPush)
        for number in 0..<700 { rig.invite("c\(number)", by: UserID("u\(number)")!) }
        #expect(rig.pusher.held.count <= PushBounds.held)
        #expect(rig.pusher.held.count <= PushBounds.heldIdle + PushLimits.perDevice)
        #expect(rig.pusher.attempts.count == PushSlots.perUser)
    }

    // MARK: Workers

    @Test func anotherWorkerSendsAgainUnderTheSameIDWithinThreeSeconds() {
        rig.register("phone", .apns)
        rig.invite()
        rig.another()
        rig.pass(2_900)
        #expect(providers.shown == ["ring phone.apns", "ring phone.apns"])
        #expect(Set(providers.sent.map { $0.headers.first { $0.name == "apns-id" }!.value }).count == 1)
        providers.answer(200, 1)
        rig.turn()
        #expect(rig.states() == ["phone apns ring:sent"] && rig.backlog == 0)
    }

    @Test func whatAnotherWorkerMayHaveSentIsStopped() {
        rig.register("phone", .fcm)
        rig.invite()
        rig.another()
        rig.accept(on: "desk")
        rig.pass(2_900)
        #expect(providers.shown == ["ring phone.fcm", "stop phone.fcm"])
    }

    @Test func aWorkerThatWakesLateHandsNothingOver() {
        rig.register("phone", .apns)
        rig.invite()
        let late = rig.pusher
        rig.another()
        rig.pass(2_900)
        #expect(providers.open.count == 2)
        providers.giveBack()
        for _ in 0..<4 { late.turn(rig.clock.boot) }
        #expect(providers.open.count == 1, "the other one's")
        providers.answer(200)
        rig.turn()
        #expect(rig.states() == ["phone apns ring:sent"])
    }

    /// The worker would judge by the state that it read before it stood still: the ring that another worker has sent
    /// would count as late.
    @Test func aWorkerThatStoodStillWithinALookWritesNothing() {
        rig.register("phone", .apns)
        rig.doubtful.standsStill = true
        rig.invite()
        let late = rig.pusher
        rig.another()
        rig.pass(2_900)
        providers.answer(200)
        rig.turn()
        rig.pass(1_000 * Int64(CallSettings().invitationTimeout))
        rig.doubtful.goOn()
        for _ in 0..<4 { late.turn(rig.clock.boot) }
        rig.turn()
        #expect(rig.states() == ["phone apns ring:sent"] && rig.told() == ["ring apns sent 200"])
        #expect(late.held.isEmpty && providers.open.isEmpty)
    }

    @Test func aWorkerThatLivesIsNotReplaced() {
        rig.register("phone", .apns)
        rig.invite()
        let first = rig.pusher
        rig.another()
        for _ in 0..<20 {
            rig.turn(after: 500)
            for _ in 0..<4 { first.turn(rig.clock.boot) }
        }
        #expect(providers.sent.count == 1)
    }

    @Test func whoStopsGivesBackWhatItHolds() {
        rig.register("phone", .apns)
        rig.register("tablet", .apns)
        rig.invite()
        providers.answer(200)
        rig.pusher.stop()
        rig.pusher.turn(rig.clock.boot)
        rig.turn(after: 100)
        #expect(rig.pusher.hasStopped)
        #expect(rig.states() == ["phone apns ring:sent", "tablet apns ring:trying"], "what is known is kept")
        rig.another()
        rig.pass(600)
        #expect(providers.shown == ["ring tablet.apns", "ring tablet.apns"])
    }

    /// A push that is let go until a later attempt is known to have reached no device, whichever worker takes it then.
    @Test func whatIsLetGoWithoutHavingLeftIsNotTakenForSent() {
        rig.register("phone", .fcm)
        rig.invite()
        providers.answer(429, retryAfter: 20)
        rig.turn()
        #expect(rig.states() == ["phone fcm"] && rig.pusher.held.isEmpty)
        rig.another()
        rig.pass(500)
        rig.accept(on: "desk")
        rig.pass(21_000)
        #expect(providers.sent.count == 1 && rig.backlog == 0)
    }

    @Test func aCallWithManyDevicesIsPushedInTurns() {
        let users = (0..<9).map { UserID("user\($0)")! }
        for user in users {
            for device in 0..<20 {
                for platform in [PushPlatform.apns, .fcm] {
                    rig.register("d\(device)", platform, of: user, token: "\(user).\(device).\(platform)")
                }
            }
        }
        rig.invite("c", users)
        #expect(providers.open.count == 2 * PushSlots.perProvider)
        #expect(rig.pusher.held.values.allSatisfy { $0.pending.count == LeasedCall.mostPending })
        for _ in 0..<10 {
            while !providers.open.isEmpty { providers.answer(200) }
            rig.turn()
        }
        #expect(providers.sent.count == 360 && rig.backlog == 0)
    }

    @Test func whoDoesNotDeliverTellsTheStoreWhatIsPushedAndCounts() {
        let rig = PushRig { $0.delivers = false }
        #expect(rig.store.pushPolicy()?.policy.apps[.standard] == Set(PushPlatform.allCases))
        rig.register("phone", .apns)
        rig.invite()
        rig.pass(5_000)
        #expect(rig.providers.sent.isEmpty)
        #expect(rig.pusher.report.counts.backlog == 1)
        #expect(rig.pusher.report.metrics.contains("bellwire_push_backlog 1\n"))
        #expect(rig.pusher.report.metrics.contains("bellwire_push_backlog_age_seconds 5\n"))
    }

    @Test func aProcessCountsAsThereUntilItEnds() throws {
        func isServed() -> Bool { rig.store.pushPolicy()?.isServed(at: rig.clock.now) ?? false }
        #expect(isServed())
        rig.pass(60_000)
        #expect(isServed())
        rig.another()
        rig.pusher.stop()
        rig.turn()
        #expect(rig.pusher.hasStopped && isServed(), "the first one is there")
        rig.pushers[0].stop()
        rig.pushers[0].turn(rig.clock.boot)
        rig.pushers[0].turn(rig.clock.boot)
        #expect(rig.pushers[0].hasStopped && !isServed())
        #expect(rig.store.pushPolicy()?.isPushing(at: rig.clock.now) == true, "one may come back")
    }

    @Test func aProcessThatIsKilledCountsAsThereForTenSeconds() {
        let now = rig.clock.now
        func isServed(after duration: Milliseconds) -> Bool {
            rig.store.pushPolicy()?.isServed(at: now + duration) ?? false
        }
        #expect(isServed(after: 9_999) && !isServed(after: 10_000))
    }

    @Test func timelinesAreKeptOfThoseCallsAlone() {
        let rig = PushRig { $0.traces = .errors }
        rig.register("phone", .apns)
        rig.invite()
        rig.providers.answer(200)
        rig.turn()
        #expect(rig.told().isEmpty)
        rig.invite("d")
        rig.providers.answer(400)
        rig.turn()
        #expect(rig.told("d") == ["ring apns refused 400"])
    }
}
