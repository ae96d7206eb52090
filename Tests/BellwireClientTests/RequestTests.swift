import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Section 2 of the protocol: resends, order, time limits.
@Suite struct RequestTests {
    @Test func aRequestIsRepeatedUnderTheSameIdAfter1248SecondsThenEvery8() {
        var device = Device.online(alice)
        let start = device.now
        device.send("r1", inviteBob)
        device.pass(29_999)
        #expect(device.sendTimes("r1", since: start) == [0, 1000, 3000, 7000, 15_000, 23_000])
    }

    @Test func anAnsweredRequestIsNotRepeated() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", call(1))
        #expect(device.outcomes == ["r1 ok"])
        device.take()
        device.pass(30_000)
        #expect(device.sentRequests.isEmpty)
        #expect(device.outcomes.isEmpty)
    }

    @Test func aRequestWithoutResponseFailsWhenItsTimeLimitHasPassed() {
        var configuration = ClientMachine.Configuration()
        configuration.requestTimeout = 5000
        var device = Device.online(alice, configuration: configuration)
        device.send("r1", inviteBob)
        device.pass(4999)
        #expect(device.outcomes.isEmpty)
        device.pass(1)
        #expect(device.outcomes == ["r1 noResponse"])
    }

    @Test(arguments: [(nil, 30_000), (5_000, 5_000), (60_000, 30_000)] as [(Int64?, Int64)])
    func theErrorOfAMissingResponseNamesTheTimeLimit(within: Int64?, limit: Int64) {
        var device = Device.online(alice)
        let request = Request(id: RequestID("r1")!, body: inviteBob)
        device.perform { $0.send(request, within: within, now: $1) }
        device.pass(limit)
        let message = "no response within \(limit) ms: the service did not answer"
        #expect(device.actions.last?.action == .fail(request.id, SignalingError(.noResponse, message)))
    }

    /// The broker does not deliver a request whose failure the app was told of.
    @Test func aBrokerKeepsARequestUntilItsTimeLimit() {
        var device = Device.online(alice)
        func expiry(_ id: String) -> UInt32 {
            let request = Request(id: RequestID(id)!, body: inviteBob)
            return device.machine.expirySeconds(of: .request(request), now: device.now)
        }
        device.send("r1", inviteBob)
        #expect(expiry("r1") == 30)
        device.pass(23_000)
        #expect(expiry("r1") == 7)
        device.pass(6_500)
        #expect(expiry("r1") == 1)
        let quit = Request(id: RequestID("r2")!, body: .quit(.init(callID: CallID("c")!)))
        device.perform { $0.send(quit, within: 4_001, now: $1) }
        #expect(expiry("r2") == 5)
        #expect(expiry("unknown") == 30)
        #expect(device.machine.expirySeconds(of: .heartbeat(CallID("c")!), now: device.now) == 30)
    }

    @Test func aRequestMadeOfflineIsSentAfterTheSubscriptionAndFailsInTimeWithoutOne() {
        var device = Device(alice)
        device.send("r1", inviteBob)
        device.perform { $0.connected(session: "s1", now: $1) }
        #expect(device.sentRequests.isEmpty)
        device.perform { $0.subscribed(now: $1) }
        #expect(device.sentRequests == ["r1"])

        var unreachable = Device(alice)
        unreachable.send("r1", inviteBob)
        unreachable.pass(30_000)
        #expect(unreachable.outcomes == ["r1 noResponse"])
    }

    @Test func presenceGoesOutBeforeTheRequestsThatWaited() {
        var device = Device(alice)
        device.send("r1", inviteBob)
        device.connect("s1")
        guard case .publishPresence = device.take().first else {
            Issue.record("presence must come first")
            return
        }
    }

    @Test func aRequestSurvivesAReconnectAndIsSentAtOnce() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.pass(3500)
        device.disconnect()
        device.pass(500)
        device.take()
        device.connect("s2")
        let start = device.now
        device.pass(1000)
        #expect(device.sendTimes("r1", since: start) == [0, 1000])
    }

    @Test(arguments: [ErrorCode.unavailable, .rateLimited])
    func aTransientRefusalIsTriedAgain(code: ErrorCode) {
        var device = Device.online(alice)
        let start = device.now
        device.send("r1", inviteBob)
        device.respond("r1", code)
        device.pass(1000)
        #expect(device.sendTimes("r1", since: start) == [0, 1000])
        device.respond("r1", call(1))
        #expect(device.outcomes == ["r1 ok"])
    }

    @Test func retryAfterDelaysTheNextTry() {
        var device = Device.online(alice)
        let start = device.now
        device.send("r1", inviteBob)
        device.respond("r1", .rateLimited, retryAfter: 4500)
        device.pass(4500)
        #expect(device.sendTimes("r1", since: start) == [0, 4500])
    }

    @Test func aTransientRefusalThatLastsIsTheErrorAtTheTimeLimit() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", .unavailable)
        device.pass(30_000)
        #expect(device.outcomes == ["r1 unavailable"])
    }

    @Test func anAbsurdRetryAfterIsHarmless() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", .rateLimited, retryAfter: .max)
        device.pass(30_000)
        #expect(device.outcomes == ["r1 rateLimited"])
    }

    @Test func aRefusalIsFinal() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", .callFull)
        device.pass(30_000)
        #expect(device.outcomes == ["r1 callFull"])
        #expect(device.sentRequests == ["r1"])
    }

    @Test func oneStateChangingRequestPerCallAtATime() {
        var device = Device.online(bob)
        device.send("r1", accept)
        device.send("r2", quit)
        device.pass(1500)
        #expect(device.sentRequests == ["r1", "r1"])
        device.take()
        device.respond("r1", call(2, .active, mode: .advanced, bob: .accepted, bobDevice: phone))
        #expect(device.sentRequests == ["r2"])
    }

    @Test func aFailureAlsoReleasesTheNextRequest() {
        var device = Device.online(bob)
        device.send("r1", accept)
        device.send("r2", quit)
        device.take()
        device.respond("r1", .invalidState)
        #expect(device.sentRequests == ["r2"])
    }

    @Test func requestsThatExpireTogetherDoNotReleaseEachOther() {
        var device = Device.online(bob)
        device.send("r1", accept)
        device.send("r2", quit)
        device.pass(30_000)
        #expect(!device.sentRequests.contains("r2"))
        #expect(device.outcomes.sorted() == ["r1 noResponse", "r2 noResponse"])
    }

    @Test func requestsOnOtherCallsAndQuestionsDoNotWait() {
        var device = Device.online(bob)
        device.send("r1", accept)
        device.send("r2", get)
        device.send("r3", .accept(.init(callID: CallID("call-2")!)))
        #expect(device.sentRequests == ["r1", "r2", "r3"])
    }

    @Test func theQueueOfACallIsBounded() {
        var configuration = ClientMachine.Configuration()
        configuration.queuedPerCall = 2
        var device = Device.online(bob, configuration: configuration)
        for number in 1...4 { device.send("r\(number)", quit) }
        #expect(device.outcomes == ["r4 tooManyRequests"])
    }

    @Test func requestsAtOnceAreBounded() {
        var configuration = ClientMachine.Configuration()
        configuration.requests = 2
        var device = Device.online(bob, configuration: configuration)
        for number in 1...3 { device.send("r\(number)", get) }
        #expect(device.outcomes == ["r3 tooManyRequests"])
    }

    @Test func aLateSecondResponseIsNoSecondOutcome() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", call(1))
        device.respond("r1", call(1))
        #expect(device.outcomes == ["r1 ok"])
        #expect(device.told == [.snapshot(call(1))])
    }

    @Test func aSecondResponseThatCarriesNewsIsTold() {
        // The device will ignore events up to this revision, so that the stream must not miss the news of the response.
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", call(1))
        device.take()
        device.respond("r1", call(3, .active, bob: .accepted))
        #expect(device.told == [.snapshot(call(3, .active, bob: .accepted))])
    }
}

/// The exception to "one at a time": a cancel may overtake its invite.
@Suite struct FastCancelTests {
    @Test func aCancelDoesNotWaitForTheResponseToItsInvite() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.send("r2", cancel)
        #expect(device.sentRequests == ["r1", "r2"])
        device.send("r3", cancel)
        #expect(device.sentRequests == ["r1", "r2"], "but the next cancel waits for the first")
    }

    @Test func aCancelThatOvertookItsInviteSucceedsWithTheInvitesResponse() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.send("r2", cancel)
        device.respond("r2", .callNotFound)
        #expect(device.outcomes.isEmpty)
        device.respond("r1", call(1, .ended, bob: .cancelled))
        #expect(device.outcomes == ["r1 ok", "r2 ok"])
    }

    @Test func aCancelAnsweredAfterTheCancelledInviteSucceeds() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.send("r2", cancel)
        device.respond("r1", call(1, .ended, bob: .cancelled))
        device.respond("r2", .callNotFound)
        #expect(device.outcomes == ["r1 ok", "r2 ok"])
    }

    @Test func aCancelThatWasNotRememberedIsSentAgain() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.send("r2", cancel)
        device.respond("r2", .callNotFound)
        device.take()
        device.respond("r1", call(1))
        #expect(device.sentRequests == ["r2"])
        device.respond("r2", call(2, .ended, bob: .cancelled))
        #expect(device.outcomes == ["r1 ok", "r2 ok"])
    }

    @Test func aCancelOfAnInviteThatFailsFailsToo() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.send("r2", cancel)
        device.respond("r2", .callNotFound)
        device.respond("r1", .callFull)
        #expect(device.outcomes == ["r1 callFull", "r2 callNotFound"])
    }

    @Test func aCancelOfAnUnknownCallFails() {
        var device = Device.online(alice)
        device.send("r1", cancel)
        device.respond("r1", .callNotFound)
        #expect(device.outcomes == ["r1 callNotFound"])
    }
}
