import CallCore
import CallDeciding
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// The loop as a machine: what happens, and when, in; what is to be done out (docs/decisions/0017).
@Suite struct LoopTests {
    private final class Rig {
        let store: FaultyStore
        let service: CallService
        let loop: CoordinatorLoop
        var now: Int64 = 1_000
        private let clock = Clock()

        init(isShared: Bool = false) {
            let clock = clock
            store = FaultyStore(MemoryCallStore { clock.now })
            store.isShared = isShared
            var settings = ServiceSettings()
            settings.limits.requests = .init(rate: 0, burst: 0)
            service = CallService(store: store, settings: settings)
            loop = CoordinatorLoop(service, now: 1_000) { $0.upperBound }
        }

        /// What is to be done, in short.
        func handle(_ event: CoordinatorLoop.Event, after duration: Int64 = 0) -> [String] {
            now += duration
            clock.now += duration
            return loop.handle(event, now: now).map { action in
                switch action {
                case .connect: "connect"
                case .disconnect: "disconnect"
                case .subscribe: "subscribe"
                case .unsubscribe: "unsubscribe"
                case .publish(let messages, _): messages.map(told).joined(separator: ", ")
                case .note(let notice): "\(notice)"
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

        static let batchInterval = CoordinatorLoop.Bounds.batchInterval

        /// As many rounds are under way as may be, and one more waits.
        func fillBatches() {
            for number in 0..<9 { _ = handle(.received([invite("u\(number)")]), after: Self.batchInterval) }
        }

        func listen() {
            _ = handle(.tick)
            _ = handle(.connected)
            _ = handle(.answered)
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
        #expect(rig.handle(.connected) == ["subscribe"])
        #expect(rig.handle(.answered) == ["listening"])
        #expect(rig.loop.isListening)
    }

    @Test func itConnectsAgainLaterEachTime() {
        #expect(rig.handle(.tick) == ["connect"])
        for pause: Int64 in [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000] {
            #expect(rig.handle(.lost).isEmpty)
            #expect(rig.handle(.tick, after: pause - 1).isEmpty)
            #expect(rig.handle(.tick, after: 1) == ["connect"])
        }
        _ = rig.handle(.connected)
        _ = rig.handle(.answered)
        _ = rig.handle(.lost)
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

    /// Eight rounds are under way, and what comes then waits.
    @Test func whatCannotBeServedInTimeIsRefusedEarly() {
        rig.listen()
        rig.store.isHeld = true
        rig.fillBatches()
        #expect(rig.handle(.received([rig.invite("early")]), after: 100).isEmpty)
        #expect(rig.loop.lateness < ServiceBounds.lateAfter)
        #expect(rig.handle(.received([rig.invite("late")]), after: 500) == ["unavailable after 2000"])
        let accept = rig.message("x-u0", .accept(.init(callID: CallID("c-u0")!)))
        #expect(rig.handle(.received([accept])).isEmpty, "what has begun goes on")
        #expect(rig.service.counters[.refusedEarly, "late"] == 1)
    }

    /// The resend of an invitation gives way to what came; the end of it does not.
    @Test func resendsAreTheFirstToGoWhenThereIsTooMuchToDo() {
        rig.listen()
        #expect(rig.handle(.received([rig.invite("caller")])) == ["call.invited, ok"])
        _ = rig.handle(.tick, after: 500)
        rig.store.isHeld = true
        rig.fillBatches()
        _ = rig.handle(.tick, after: 600)
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

    @Test func itLeavesTheGroupWhileTheStoreIsOutOfReachAndComesBack() {
        let rig = Rig(isShared: true)
        rig.listen()
        _ = rig.handle(.tick, after: 100)
        rig.store.failing = [.now]
        #expect(rig.handle(.tick, after: 100).isEmpty)
        #expect(rig.handle(.tick, after: 499).isEmpty)
        // 600 ms after the last look began that was answered.
        #expect(rig.handle(.tick, after: 1) == [#"storeOutOfReach("down: now")"#, "unsubscribe"])
        #expect(rig.handle(.received([rig.invite("alice")])) == ["unavailable"], "it was handed it before")
        #expect(rig.handle(.answered).isEmpty)
        rig.store.failing = []
        #expect(rig.handle(.tick, after: 50).isEmpty)
        #expect(rig.service.storeFailure == nil)
        #expect(rig.handle(.tick, after: 1) == ["storeWithinReach", "subscribe"])
        #expect(rig.handle(.answered) == ["listening"])
    }

    @Test func whoIsToEndServesWhatItHoldsAndWritesWhatItNoted() {
        rig.listen()
        rig.store.isHeld = true
        _ = rig.handle(.received([rig.invite("alice")]))
        #expect(rig.handle(.stop) == ["unsubscribe"])
        #expect(rig.handle(.answered).isEmpty)
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
