import BellwireClient
import SignalingProtocol
import Testing

@testable import ZIMCompat

@Suite struct BoundTests {
    @Test func ofCallsTheOldestAreForgotten() {
        var scene = Scene(bob)
        for number in 0...Narration.mostStories {
            scene.call.callID = CallID("call-\(number)")!
            scene.call.createdAt = Int64(number)
            _ = scene.event(.invited)
        }
        #expect(!scene.narration.follows(CallID("call-0")!))
        #expect(scene.narration.follows(CallID("call-1")!))
    }

    @Test func ofHeldEventsTheNewestAreKept() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.narration.asks(callID)
        for number in 0..<OpenRequests.mostHeld + 1 {
            scene.move(bob, to: number.isMultiple(of: 2) ? .received : .notYetReceived)
            _ = scene.event(.userStateChanged)
        }
        #expect(scene.narration.answered(callID, with: nil).count == OpenRequests.mostHeld)
    }

    @Test func ofAbandonedCallsTheOldestCountsNoMore() {
        var scene = Scene(alice)
        scene.narration.abandon(callID)
        for number in 0..<Narration.mostAbandoned { scene.narration.abandon(CallID("other-\(number)")!) }
        #expect(!scene.snapshot().isEmpty)
    }

    @Test func pagesHaveFlagsOfWhichTheOldestCountNoMore() {
        var pages = Pages()
        #expect(pages.flag(Answer.lastCursor) == 0)
        #expect(pages.cursor(0) == Answer.lastCursor)
        let first = pages.flag("a")
        #expect(first != 0 && pages.cursor(first) == "a")
        for number in 0..<Pages.most { _ = pages.flag("b\(number)") }
        #expect(pages.cursor(first) == nil)
        #expect(pages.cursor(first + 1) == "b0")
    }
}
