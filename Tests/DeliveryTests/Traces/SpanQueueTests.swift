import SignalingProtocol
import Testing

@testable import Delivery

/// The queue of spans that wait to be sent has bounds.
@Suite struct SpanQueueTests {
    /// The macros of tests call no mutating function.
    private final class Queue {
        private(set) var queue = SpanQueue()

        func add(_ item: SpanQueue.Item) -> Bool { queue.add(item) }
        func takeBatch() -> SpanQueue.Batch? { queue.takeBatch() }
        var spans: Int { queue.spans }
        var bytes: Int { queue.bytes }
        var isEmpty: Bool { queue.isEmpty }
    }

    private func item(_ spans: Int, bytes: Int = 2) -> SpanQueue.Item {
        SpanQueue.Item(bytes: [UInt8](repeating: UInt8(ascii: " "), count: bytes), spans: spans)
    }

    @Test func theNumberOfSpansIsBounded() {
        let queue = Queue()
        #expect(queue.add(item(SpanQueue.mostSpans - 1)))
        #expect(!queue.add(item(2)) && queue.add(item(1)) && !queue.add(item(1)))
        #expect(queue.takeBatch()?.spans == SpanQueue.mostSpans - 1, "a call goes as a whole")
        #expect(queue.spans == 1 && queue.add(item(1)))
    }

    @Test func theBytesAreBounded() {
        let queue = Queue()
        #expect(queue.add(item(1, bytes: SpanQueue.mostBytes - 1)))
        #expect(!queue.add(item(1, bytes: 2)) && queue.bytes == SpanQueue.mostBytes - 1)
        _ = queue.takeBatch()
        #expect(queue.isEmpty && queue.bytes == 0 && queue.takeBatch() == nil)
    }

    @Test func aRequestTakesTheCallsThatFit() {
        let queue = Queue()
        for _ in 0..<3 { _ = queue.add(item(SpanQueue.spansPerRequest / 2)) }
        #expect(queue.takeBatch()?.spans == SpanQueue.spansPerRequest)
        #expect(queue.takeBatch()?.spans == SpanQueue.spansPerRequest / 2)
        for _ in 0..<3 { _ = queue.add(item(1, bytes: SpanQueue.bytesPerRequest / 2)) }
        #expect(queue.takeBatch()?.spans == 2)
    }

    @Test func endedCallsAreBoundedAndTheOthersCounted() {
        let ended = EndedCalls()
        for number in 0..<(EndedCalls.capacity + 3) { ended.add(CallID("c\(number)")!, at: 0) }
        #expect(ended.takeDropped() == 3 && ended.takeDropped() == 0)
        #expect(ended.take(10, until: EndedCalls.pause - 1).isEmpty, "the timeline may still grow")
        #expect(ended.take(10, until: EndedCalls.pause).map(\.callID.string) == (0..<10).map { "c\($0)" })
    }
}
