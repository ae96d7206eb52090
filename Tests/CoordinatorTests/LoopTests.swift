import CallCore
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// The loop as a machine: events and their times go in, and actions come out (docs/decisions/0017).
@Suite struct LoopTests {
    private final class Rig {
        let memory: MemoryCallStore
        let store: FaultyStore
        let service: CallService
        let loop: CoordinatorLoop
        var now: Int64 = 1_000
        private let clock = Clock()

        init(isShared: Bool = false) {
            let clock = clock
            memory = MemoryCallStore { clock.now }
            store = FaultyStore(memory)
            store.isShared = isShared
            var settings = ServiceSettings()
            settings.limits.requests = .init(rate: 0, burst: 0)
            service = CallService(store: store, settings: settings)
            let before = clock.now - 1_000
            loop = CoordinatorLoop(service, clock: { clock.now - before }) { $0.upperBound }
        }

        /// Lets time pass, also in the middle of an event.
        func pass(_ duration: Int64) {
            now += duration
            clock.now += duration
        }

        /// Returns the loop's actions, in short.
        func handle(_ event: CoordinatorLoop.Event, after duration: Int64 = 0) -> [String] {
            pass(duration)
            return loop.handle(event, now: now).compactMap { action in
                switch action {
                case .connect: "connect"
                case .disconnect: "disconnect"
                case .subscribe: "subscribe"
                case .unsubscribe: "unsubscribe"
                case .publish(let messages, at: _, by: _): messages.map(told).joined(separator: ", ")
                case .note(let notice, _): "\(notice)"
                case .sendCanary, .sendDisabledUsers, .subscribeRelay, .unsubscribeRelay: nil
                case .end: "end"
                }
            }
        }

        private func told(_ message: OutboundMessage) -> String {
            switch DownMessage.decode(message.payload) {
            case .event(let event): event.name.rawValue
            case .welcome: "welcome"
            case .response(let response):
                switch response.outcome {
                case .success, .answer: "ok"
                case .failure(let error): "\(error.code)" + (error.retryAfter.map { " after \($0)" } ?? "")
                }
            default: "?"
            }
        }

        static let batchInterval = CoordinatorLoop.LoopBounds.batchInterval
        static let longestUnread = CoordinatorLoop.LoopBounds.longestUnread

        /// Begins as many batches as may be under way, and leaves a further batch waiting.
        func fillBatches() {
            for number in 0..<9 { _ = handle(.received([invite("u\(number)")]), after: Self.batchInterval) }
        }

        func listen() {
            _ = handle(.tick)
            _ = handle(.connected())
            _ = handle(.answered())
        }

        func message(_ user: String, _ body: Request.Body, id: String = "r") -> InboundMessage {
            let device = DeviceAddress(userID: UserID(user)!, deviceID: DeviceID("phone")!)
            let request = UpMessage.request(Request(id: RequestID(id)!, body: body))
            return InboundMessage(topic: Topics.standard.up(device), payload: request.encoded())
        }

        func invite(_ user: String) -> InboundMessage {
            message(user, .invite(.init(invitees: [UserID("x-\(user)")!], callID: CallID("c-\(user)")!)))
        }
    }

    private let rig = Rig()

    @Test func itConnectsSubscribesAndListens() {
        #expect(rig.handle(.tick) == ["connect"])
        #expect(!rig.loop.isListening)
        #expect(rig.handle(.connected()) == ["subscribe"])
        #expect(rig.handle(.answered()) == ["listening"])
        #expect(rig.loop.isListening)
    }

    @Test func itConnectsAgainLaterEachTime() {
        #expect(rig.handle(.tick) == ["connect"])
        for pause: Int64 in [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000] {
            #expect(rig.handle(.lost()).isEmpty)
            #expect(rig.handle(.tick, after: pause - 1).isEmpty)
            #expect(rig.handle(.tick, after: 1) == ["connect"])
        }
        _ = rig.handle(.connected())
        _ = rig.handle(.answered())
        _ = rig.handle(.lost())
        #expect(rig.handle(.tick, after: 250) == ["connect"], "it had listened")
    }

    @Test func aBrokerThatSaysNothingIsGivenUp() {
        _ = rig.handle(.tick)
        #expect(rig.handle(.tick, after: 5_000).isEmpty)
        #expect(rig.handle(.tick, after: 1) == ["brokerIsSilent", "disconnect"])
    }

    @Test func whoStoodStillThrowsAwayWhatItReceived() {
        rig.listen()
        rig.store.isHeld = true
        #expect(rig.handle(.received([rig.invite("alice")])).isEmpty)
        _ = rig.handle(.received([rig.message("alice", .query(.init()))]))
        #expect(rig.handle(.frozen, after: 10_000) == ["frozen", "disconnect"])
        rig.store.release()
        #expect(rig.handle(.tick).isEmpty, "what it did is not told")
        #expect(rig.service.counters[.publicationsDropped] > 0)
    }

    @Test func whatIsDoneTooLateIsNotTold() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        rig.store.release()
        #expect(rig.handle(.tick, after: 499) == ["call.invited, ok"])
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("bob")]))
        rig.store.release()
        #expect(rig.handle(.tick, after: 500).isEmpty)
        #expect(rig.loop.stale == 1)
    }

    @Test func nobodyWaitsForWhatTheStoreDoesForOthers() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        #expect(!rig.loop.takesMessages, "others come together in the socket")
        _ = rig.handle(.tick, after: Rig.batchInterval)
        #expect(rig.loop.takesMessages)
        let asked = rig.store.operations
        _ = rig.handle(.received([rig.message("alice", .query(.init()))]))
        #expect(rig.store.operations == asked, "alice's second request waits for the first")
        _ = rig.handle(.received([rig.invite("bob")]), after: Rig.batchInterval)
        #expect(rig.store.operations > asked)
        rig.store.release()
        #expect(rig.handle(.tick) == ["call.invited, ok", "call.invited, ok"])
        #expect(rig.loop.nextTick == rig.now)
        #expect(rig.handle(.tick) == ["ok"])
    }

    /// The requests of a user can make a batch each, one after another: for seconds no other user would be heard.
    @Test func whatFollowsEachOtherKeepsNobodyElseFromBeingRead() {
        rig.listen()
        rig.store.isHeld = true
        let cancels = (0..<12).map { rig.message("alice", .cancel(.init(callID: CallID("c\($0)")!)), id: "r\($0)") }
        _ = rig.handle(.received(cancels))
        for _ in 0..<Rig.longestUnread / (Rig.batchInterval / 2) {
            #expect(!rig.loop.takesMessages)
            rig.store.release()
            #expect(rig.handle(.tick, after: Rig.batchInterval / 2) == ["callNotFound"])
            rig.store.isHeld = true
            #expect(rig.handle(.tick).isEmpty, "the next one is begun")
        }
        #expect(rig.loop.takesMessages)
    }

    /// Behind the burst of a user, the requests of other users wait in the socket.
    @Test func aReadThatReachedItsBoundIsFollowedByTheNextRead() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")], mayHoldMore: true))
        #expect(rig.loop.takesMessages, "although a batch is under way")
        #expect(rig.loop.nextTick == rig.now)
        _ = rig.handle(.received([rig.invite("bob")], mayHoldMore: true))
        #expect(rig.loop.takesMessages)
        _ = rig.handle(.received([rig.invite("carol")]))
        #expect(!rig.loop.takesMessages, "the socket was emptied")
        for event in [CoordinatorLoop.Event.tick, .frozen] {
            _ = rig.handle(.received([rig.invite("dave")], mayHoldMore: true))
            _ = rig.handle(event)
            #expect(!rig.loop.takesMessages, "a read that finds nothing, and messages that are stale")
        }
    }

    /// As many batches are under way as may be, so that no other event would wake the loop.
    @Test func itIsCalledWhenItIsTimeToRead() {
        rig.listen()
        rig.store.isHeld = true
        for number in 0..<8 { _ = rig.handle(.received([rig.invite("u\(number)")]), after: Rig.batchInterval) }
        #expect(!rig.loop.takesMessages)
        #expect(rig.loop.nextTick == rig.now + Rig.batchInterval)
        _ = rig.handle(.tick, after: Rig.batchInterval)
        #expect(rig.loop.takesMessages)
    }

    /// Eight batches are under way, and later requests wait.
    @Test func whatCannotBeServedInTimeIsRefusedEarly() {
        rig.listen()
        rig.store.isHeld = true
        rig.fillBatches()
        let accept = rig.message("x-u0", .accept(.init(callID: CallID("c-u0")!)))
        #expect(rig.handle(.received([rig.invite("early"), accept]), after: 100).isEmpty)
        #expect(rig.loop.lateness < ServiceBounds.lateAfter)
        // The ninth batch has waited for longer.
        #expect(rig.handle(.tick, after: 400) == ["unavailable after 2000"])
        #expect(rig.handle(.received([rig.invite("fresh")]), after: 100) == ["unavailable after 2000"])
        #expect(rig.service.counters[.refusedEarly, "late"] == 2)
        #expect(
            rig.loop.lateness >= ServiceBounds.lateAfter, "who was refused just now knows that there is too much to do")
        rig.store.isHeld = false
        rig.store.release()
        let told = (0..<3).flatMap { _ in rig.handle(.tick, after: Rig.batchInterval) }
        #expect(
            told == ["call.userStateChanged, ok", "call.invited, ok"],
            "what has begun, and what came when others were late")
        _ = rig.handle(.tick, after: 1_000)
        #expect(rig.loop.lateness == 0)
    }

    private func rings(_ told: String) -> Int { told.split(separator: " ").count { $0 == "call.invited," } }

    /// The loop can do no other work meanwhile: the results of a batch are told before the next batch begins.
    @Test func aStoreThatAnswersAtOnceIsAskedForOneRoundAtATime() {
        rig.listen()
        rig.store.answersAtOnce = true
        rig.store.beforeOperation = { [rig] _ in rig.pass(10) }
        let told = rig.handle(.received((0..<100).map { rig.invite("u\($0)") }))
        #expect(told.count == 1)
        #expect(rings(told[0]) == ServiceBounds.messagesPerBatch)
        #expect(rig.loop.nextTick <= rig.now)
        #expect(rings(rig.handle(.tick)[0]) == 100 - ServiceBounds.messagesPerBatch)
    }

    /// The loop treats this store like a store that answers later: results that took too long are not told, and the
    /// next batch is smaller, until results are told in time.
    @Test func aSlowStoreThatAnswersAtOnceIsAskedForLessAtATime() {
        rig.listen()
        rig.store.answersAtOnce = true
        rig.store.beforeCommit = { [rig] _ in rig.pass(600) }
        #expect(rig.handle(.received((0..<32).map { rig.invite("u\($0)") })).isEmpty)
        #expect(rig.loop.stale == 1)
        rig.store.beforeCommit = nil
        let told = rig.handle(.received((0..<64).map { rig.invite("v\($0)") }))
        #expect(rings(told[0]) == 16)
    }

    /// A resend is due while the received requests wait for half a second.
    private func putOffAResend() {
        rig.listen()
        #expect(rig.handle(.received([rig.invite("caller")])) == ["call.invited, ok"])
        _ = rig.handle(.tick, after: 500)
        rig.store.isHeld = true
        rig.fillBatches()
        _ = rig.handle(.tick, after: 600)
    }

    /// The store's due index still has the earlier moment of the resend.
    @Test func noSweepBringsBackWhatWasPutOff() {
        putOffAResend()
        #expect(rig.service.counters[.resendsPutOff] == 1)
        rig.store.isHeld = false
        rig.store.release()
        // The sweep that finds the resend comes 900 ms after the resend was due, and the next turn serves the found
        // deadline.
        for _ in 0..<9 { _ = rig.handle(.tick, after: 100) }
        #expect(rig.service.counters[.eventsResent] == 0, "its time has not come")
        for _ in 0..<8 { _ = rig.handle(.tick, after: 100) }
        #expect(rig.service.counters[.eventsResent] > 0)
    }

    /// The resend of an invitation gives way to new requests; the end of the invitation does not.
    @Test func resendsAreTheFirstToGoWhenThereIsTooMuchToDo() {
        putOffAResend()
        #expect(rig.loop.lateness >= ServiceBounds.lateAfter)
        #expect(rig.service.counters[.resendsPutOff] == 1)
        #expect(rig.service.counters[.eventsResent] == 0)
    }

    @Test func aUserWhoHasTooMuchWaitingIsRefused() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        let many = (0..<WorkQueue.mostWaiting).map {
            rig.message("alice", .cancel(.init(callID: CallID("k\($0)")!)), id: "r\($0)")
        }
        #expect(rig.handle(.received(many)).isEmpty)
        #expect(rig.handle(.received([rig.message("alice", .query(.init()))])) == ["unavailable after 2000"])
        #expect(rig.handle(.received([rig.invite("bob")])).isEmpty)
        #expect(rig.service.counters[.refusedEarly, "full"] == 1)
    }

    // MARK: Side by side

    /// Makes the store hold back its answer to the next operation of this kind, and answer every later operation.
    private func holdBack(_ operation: FaultyStore.Operation) {
        rig.store.beforeOperation = { [rig] next in
            rig.store.isHeld = next == operation
            if rig.store.isHeld { rig.store.beforeOperation = { _ in rig.store.isHeld = false } }
        }
    }

    @Test func nobodyInARoundWaitsForWhatOthersAskBesides() {
        rig.listen()
        holdBack(.history)
        let queries = ["bob", "carol"].map { rig.message($0, .query(.init())) }
        #expect(rig.handle(.received([rig.invite("alice")] + queries)) == ["call.invited, ok, ok"], "and carol")
        #expect(
            rig.handle(.received([rig.invite("bob")]), after: Rig.batchInterval).isEmpty, "what bob sends has an order")
        rig.store.release()
        #expect(rig.handle(.tick) == ["ok"])
        #expect(rig.handle(.tick) == ["call.invited, ok"])
    }

    /// Another user's request at this coordinator is about to write the call that holds the claim: that commit would
    /// lose against a fence, which raises the call's version.
    @Test func aFenceWaitsForWhatIsUnderWayHere() throws {
        rig.listen()
        let body = Request.Body.invite(.init(invitees: [UserID("x")!], callID: CallID("a")!, mode: .advanced))
        #expect(rig.handle(.received([rig.message("alice", body)])) == ["call.invited, ok"])
        try endWithoutGivingUpTheClaim(CallID("a")!)
        holdBack(.load)
        _ = rig.handle(.received([rig.message("x", .get(.init(callID: CallID("a")!)))]))
        let next = Request.Body.invite(.init(invitees: [UserID("x")!], callID: CallID("b")!, mode: .advanced))
        let received = CoordinatorLoop.Event.received([rig.message("alice", next, id: "s")])
        #expect(rig.handle(received, after: Rig.batchInterval).isEmpty)
        #expect(rig.handle(.tick, after: 3).isEmpty)
        #expect(rig.handle(.tick, after: 1) == ["call.invited, ok"], "4 ms at most")
        rig.store.release()
        _ = rig.handle(.tick)
    }

    private func endWithoutGivingUpTheClaim(_ callID: CallID) throws {
        let stored = try #require(rig.memory.load([.call(callID)])[0])
        guard case .call(let call) = stored.record else { return }
        var machine = CallMachine(call: call, settings: ServiceSettings().calls)
        let device = DeviceAddress(userID: call.inviter, deviceID: DeviceID("phone")!)
        let key = RequestKey(device: device, requestID: RequestID("end")!)
        try machine.endRequested(.init(callID: callID), .init(key: key, now: call.updatedAt + 1))
        let ended = Commit(
            .call(callID), record: .call(machine.call), expected: stored.version, deadline: nil, expiresAt: nil)
        #expect(rig.memory.commit([ended]) == [.committed(version: stored.version + 1)])
    }

    /// The store holds back an answer after the batch has made as many queries as all its requests may wait for
    /// together.
    @Test func nobodyInARoundWaitsForAllThatHasToBeLookedUpForOthers() {
        rig.listen()
        let many = (0..<ServiceBounds.unforeseenQueries(0)).map { number in
            let invite = Request.Invite(
                invitees: [UserID("b\(number)")!], callID: CallID("l\(number)")!, ifBusy: .reject)
            return rig.message("a\(number)", .invite(invite))
        }
        for number in 0..<many.count {
            _ = rig.handle(.received([rig.message("q\(number)", .invite(.init(invitees: [UserID("b\(number)")!])))]))
        }
        var lookups = 0
        rig.store.beforeOperation = { [rig] operation in
            if operation == .calls { lookups += 1 }
            rig.store.isHeld = operation == .calls && lookups == ServiceBounds.unforeseenQueries(0) / 2 + 1
        }
        #expect(rings(rig.handle(.received(many + [rig.invite("alice")])).joined()) == 1)
        rig.store.beforeOperation = nil
        rig.store.release()
        _ = rig.handle(.tick)
    }

    /// When a connection is lost, the devices send their requests again, and another coordinator has these requests by
    /// then.
    @Test func whatWaitsGoesWithItsConnection() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        _ = rig.handle(.received([rig.message("alice", .query(.init()))]))
        _ = rig.handle(.lost())
        let asked = rig.store.operationCounts[.history]
        rig.store.release()
        _ = rig.handle(.tick)
        _ = rig.handle(.tick)
        #expect(rig.store.operationCounts[.history] == asked)
    }

    /// Other writers were faster each time, or the queries came to no end: the store has answered, and stays in use.
    @Test func whatComesToNoEndIsNoFailureOfTheStore() {
        let context = ServiceContext(rig.memory, ServiceSettings())
        context.failed(StoreError(.unsettled, "no end"))
        #expect(context.health.failure == nil && context.counters[.storeErrors] == 1)
        context.failed(StoreError(.unreachable, "down"))
        #expect(context.health.failure != nil)
    }

    /// Without a connection this coordinator can tell no device of a deadline; another coordinator can.
    @Test func withoutAConnectionNoDeadlineIsServed() {
        rig.listen()
        #expect(rig.handle(.received([rig.invite("alice")])) == ["call.invited, ok"])
        _ = rig.handle(.lost())
        let asked = rig.store.operationCounts[.due]
        _ = rig.handle(.tick, after: 100)
        for _ in 0..<20 { _ = rig.handle(.tick, after: 100) }
        #expect(rig.store.operationCounts[.due] == asked)
        _ = rig.handle(.connected())
        #expect(rig.handle(.answered()).contains { $0.contains("call.invited") }, "the resend is due")
    }

    /// Each user sends sixteen invitations, and each invitation asks whether its invitee is busy: more queries than a
    /// decision may make.
    @Test func aDecisionThatComesToNoEndHurtsNobodyElse() {
        rig.listen()
        let many = ["eve", "mallory", "trudy"].flatMap { user in
            (0..<WorkQueue.mostOfUser).map { number in
                let invite = Request.Invite(
                    invitees: [UserID("b-\(user)-\(number)")!], callID: CallID("same")!, mode: .advanced,
                    ifBusy: .reject)
                return rig.message(user, .invite(invite), id: "i\(number)")
            }
        }
        // Another user calls each invitee, so that the decision has to look whether the invitees are busy. The three
        // inviters may not make the call, since each of these users has a call already.
        for user in ["eve", "mallory", "trudy"] {
            let own = Request.Invite(invitees: [UserID("z")!], callID: CallID("own-\(user)")!, mode: .advanced)
            _ = rig.handle(.received([rig.message(user, .invite(own), id: "own")]))
            for number in 0..<WorkQueue.mostOfUser {
                let other = Request.Invite(
                    invitees: [UserID("b-\(user)-\(number)")!], callID: CallID("o-\(user)-\(number)")!)
                _ = rig.handle(.received([rig.message("q-\(user)-\(number)", .invite(other))]))
            }
        }
        let told = rig.handle(.received(many + [rig.invite("alice")])).joined(separator: ", ")
        #expect(rings(told) == 1, "alice is served: \(told)")
        #expect(told.contains("unavailable"))
        #expect(rig.service.storeFailure == nil, "the store has answered")
    }

    /// A message that the broker handed over before the coordinator left the share group is not dropped, though the
    /// message arrives after the answer to UNSUBSCRIBE.
    @Test func whatItWasHandedBeforeItLeftIsAnswered() {
        let rig = Rig(isShared: true)
        rig.listen()
        _ = rig.handle(.tick, after: 100)
        rig.store.failing = [.now]
        for _ in 0..<7 { _ = rig.handle(.tick, after: 100) }
        #expect(rig.handle(.answered()).isEmpty)
        #expect(rig.handle(.received([rig.invite("alice")])) == ["unavailable"], "the messages of the same moment")
        #expect(rig.handle(.stop) == ["end"] || rig.handle(.tick) == ["end"], "away it has left already")
    }

    @Test func itLeavesTheGroupWhileTheStoreIsOutOfReachAndComesBack() {
        let rig = Rig(isShared: true)
        rig.listen()
        _ = rig.handle(.tick, after: 100)
        rig.store.failing = [.now]
        #expect(rig.handle(.tick, after: 100).isEmpty)
        #expect(rig.handle(.tick, after: 499).isEmpty)
        // 600 ms have passed since the start of the last look at the store that was answered.
        #expect(rig.handle(.tick, after: 1) == [#"storeOutOfReach("down: now")"#, "unsubscribe"])
        #expect(rig.handle(.received([rig.invite("alice")])) == ["unavailable"], "it was handed it before")
        #expect(rig.handle(.answered()).isEmpty)
        rig.store.failing = []
        #expect(rig.handle(.tick, after: 50).isEmpty)
        #expect(rig.service.storeFailure == nil)
        #expect(rig.handle(.tick, after: 1) == ["storeWithinReach", "subscribe"])
        #expect(rig.handle(.answered()) == ["listening"])
    }

    @Test func whoIsToEndServesWhatItHoldsAndWritesWhatItNoted() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        #expect(rig.handle(.stop) == ["unsubscribe"])
        #expect(rig.handle(.answered()).isEmpty)
        rig.store.release()
        #expect(rig.handle(.tick) == ["call.invited, ok"])
        let before = rig.store.operationCounts[.trace] ?? 0
        #expect(rig.handle(.tick) == ["end"])
        #expect(rig.store.operationCounts[.trace] ?? 0 > before)
        #expect(rig.loop.hasEnded)
    }

    @Test func whoCannotFinishEndsAllTheSame() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        _ = rig.handle(.stop)
        #expect(rig.handle(.tick, after: 3_000).isEmpty)
        #expect(rig.handle(.tick, after: 1) == ["end"])
        rig.store.release()
        rig.loop.giveUp()
    }
}
