import CallCore
import CallStore
import SignalingProtocol
import Support
import Testing

@testable import Coordinator

struct TimerQueueTests {
    private var queue = TimerQueue()

    private func id(_ number: Int) -> RecordID { .call(CallID("c\(number)")!) }

    @Test mutating func deadlinesComeOutInTheirOrder() {
        for moment in [5, 1, 4, 2, 3] { queue.set(id(moment), at: Milliseconds(moment)) }
        #expect(queue.next == 1)
        #expect(queue.take(until: 3, limit: 10) == [id(1), id(2), id(3)])
        #expect(queue.next == 4)
        #expect(queue.count == 2)
    }

    @Test mutating func aDeadlineComesAtItsMomentAndNotBefore() {
        queue.set(id(1), at: 100)
        #expect(queue.take(until: 99, limit: 10).isEmpty)
        #expect(queue.take(until: 100, limit: 10) == [id(1)])
        #expect(queue.take(until: 100, limit: 10).isEmpty)
        #expect(queue.next == nil)
    }

    @Test mutating func resendsThatHaveComeArePutOffAndNothingElse() {
        queue.set(id(1), at: 100, isResend: true)
        queue.set(id(2), at: 110)
        queue.set(id(3), at: 120, isResend: true)
        queue.set(id(4), at: 130, isResend: true)
        #expect(queue.putOffResends(until: 125, by: 1000, limit: 10) == 2)
        #expect(queue.next == 110)
        #expect(queue.take(until: 130, limit: 10) == [id(2), id(4)])
        #expect(queue.putOffResends(until: 1_124, by: 1000, limit: 10) == 0)
        #expect(Set(queue.take(until: 1_125, limit: 10)) == [id(1), id(3)])
    }

    @Test mutating func aDeadlineThatIsSetAnewIsNoResendAnyMore() {
        queue.set(id(1), at: 100, isResend: true)
        queue.set(id(1), at: 90)
        #expect(queue.putOffResends(until: 100, by: 1000, limit: 10) == 0)
        #expect(queue.take(until: 100, limit: 10) == [id(1)])
    }

    @Test(arguments: [50, 150])
    mutating func aNewDeadlineReplacesTheOldOne(_ moment: Milliseconds) {
        queue.set(id(1), at: 100)
        queue.set(id(1), at: moment)
        #expect(queue.count == 1)
        #expect(queue.take(until: moment - 1, limit: 10).isEmpty)
        #expect(queue.next == moment)
        #expect(queue.take(until: moment, limit: 10) == [id(1)])
        #expect(queue.take(until: 1000, limit: 10).isEmpty)
    }

    @Test mutating func aDeadlineCanBeTakenBack() {
        queue.set(id(1), at: 100)
        queue.set(id(1), at: nil)
        #expect(queue.count == 0)
        #expect(queue.take(until: 1000, limit: 10).isEmpty)
        queue.set(id(1), at: nil)
        queue.set(id(1), at: 100)
        #expect(queue.take(until: 100, limit: 10) == [id(1)])
    }

    @Test mutating func theSameDeadlineTwiceIsOne() {
        queue.set(id(1), at: 100)
        queue.set(id(1), at: 200)
        queue.set(id(1), at: 100)
        #expect(queue.take(until: 1000, limit: 10) == [id(1)])
        #expect(queue.take(until: 1000, limit: 10).isEmpty)
    }

    @Test mutating func noMoreThanTheLimitIsTaken() {
        for number in 0..<10 { queue.set(id(number), at: Milliseconds(number)) }
        #expect(queue.take(until: 100, limit: 4).count == 4)
        #expect(queue.next == 4)
        #expect(queue.take(until: 100, limit: 100).count == 6)
    }

    /// Compares the queue with a plain dictionary, with so many replacements that the queue has to clean itself.
    @Test(arguments: [1, 2, 3])
    mutating func randomUseGivesWhatADictionaryGives(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var model: [RecordID: Milliseconds] = [:]
        var now: Milliseconds = 0
        for _ in 0..<20_000 {
            let call = id(Int.random(in: 0..<200, using: &random))
            switch Int.random(in: 0..<20, using: &random) {
            case 0:
                queue.set(call, at: nil)
                model[call] = nil
            case 1:
                now += Milliseconds.random(in: 0...30, using: &random)
                let taken = queue.take(until: now, limit: .max)
                let expected = model.filter { $0.value <= now }
                #expect(Set(taken) == Set(expected.keys))
                #expect(taken.map { expected[$0]! } == expected.values.sorted())
                for call in taken { model[call] = nil }
                #expect(queue.next == model.values.min())
            default:
                let moment = now + Milliseconds.random(in: 1...500, using: &random)
                queue.set(call, at: moment)
                model[call] = moment
            }
            #expect(queue.count == model.count)
        }
    }

    @Test mutating func deadlinesThatMoveOnDoNotPileUp() {
        for round in 0..<50_000 {
            queue.set(id(round % 10), at: Milliseconds(1_000_000 + round))
            if round % 100 == 0 { _ = queue.take(until: 0, limit: 1) }
        }
        let mirror = Mirror(reflecting: queue).children.first { $0.label == "heap" }
        #expect(Mirror(reflecting: mirror!.value).children.count < 2_000)
        #expect(queue.take(until: .max, limit: 100).count == 10)
    }
}
