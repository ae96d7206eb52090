import CallStore
import HTTPSending
import SignalingProtocol
import Support
import Testing

@testable import CallCore
@testable import Delivery

/// How spans are sent, in virtual time.
@Suite struct SpanWorkerTests {
    /// A receiver that answers when a test tells it to, and as the test says.
    private final class Receiver: RequestSender {
        private(set) var sent: [HTTPRequest] = []
        private var answers: [HTTPAnswer] = []
        let descriptor: Int32 = -1

        func send(_ request: HTTPRequest) { sent.append(request) }

        func take() -> [HTTPAnswer] {
            defer { answers = [] }
            return answers
        }

        func answer(_ outcome: HTTPAnswer.Outcome) {
            answers.append(HTTPAnswer(id: sent.last?.id ?? 0, outcome: outcome, took: 1))
        }

        func answer(_ status: Int, retryAfter: Int? = nil, _ body: String = "{}") {
            answer(.answered(.init(status: status, retryAfter: retryAfter, body: Array(body.utf8))))
        }
    }

    private final class Clock {
        var now: Int64 = 0
    }

    private let clock = Clock()
    private let receiver = Receiver()
    private let ended = EndedCalls()
    private let store: MemoryCallStore
    private let worker: SpanWorker
    private final class News {
        var all: [SpanNews] = []
    }
    private let news = News()

    init() throws {
        let (clock, news) = (clock, news)
        store = MemoryCallStore { CallSpanTests.start + clock.now }
        worker = SpanWorker(
            store, try OTLPSettings(url: "http://collector:4318"), ended, sender: receiver, version: "1", now: 0,
            wall: { WallTime(milliseconds: CallSpanTests.start + clock.now) })
        worker.onNews = { news.all.append($0) }
    }

    private var counts: SpanCounts { worker.report.counts }
    private var spansOfCall: Int { CallSpanTests.spans().count }

    private func end(_ id: String) {
        let call = CallSpanTests.call(id)
        _ = store.commit([Commit(.call(call.callID), record: .call(call), expected: 0, deadline: nil, expiresAt: nil)])
        store.trace([CallTrace(call.callID, CallSpanTests.story)], life: 1_000_000)
        ended.add(call.callID, at: clock.now)
    }

    private func turn(after duration: Int64 = 0) {
        clock.now += duration
        for _ in 0..<3 { worker.turn(clock.now) }
    }

    @Test func theSpansOfACallLeaveWhenItsTimelineIsComplete() throws {
        end("c")
        turn(after: EndedCalls.pause - 1)
        #expect(receiver.sent.isEmpty)
        turn(after: 1)
        let request = try #require(receiver.sent.first)
        #expect(request.url == "http://collector:4318/v1/traces" && request.method == .post)
        #expect(request.headers.contains { $0 == ("content-type", "application/json") })
        #expect(request.isToProvider && request.allowsPlainHTTP)
        #expect(counts.waiting == spansOfCall && counts.sent == 0)
        receiver.answer(200)
        turn()
        #expect(counts.sent == spansOfCall && counts.waiting == 0 && news.all.isEmpty)
    }

    @Test(arguments: [429, 502, 503, 504]) func aBusyReceiverIsAskedAgain(_ status: Int) {
        end("c")
        turn(after: EndedCalls.pause)
        receiver.answer(status, retryAfter: 7)
        turn()
        turn(after: 6_999)
        #expect(receiver.sent.count == 1)
        turn(after: 1)
        #expect(receiver.sent.count == 2 && receiver.sent[0].body == receiver.sent[1].body)
        receiver.answer(200)
        turn()
        #expect(counts.sent == spansOfCall && news.all.first == .refuses("HTTP \(status)"))
    }

    @Test func aReceiverThatIsAwayIsGivenUpAfterFiveAttempts() {
        end("c")
        turn(after: EndedCalls.pause)
        for _ in 0..<4 {
            receiver.answer(.failed(reason: "refused", wasHandedOver: false))
            turn()
            turn(after: 20_000)
        }
        receiver.answer(.failed(reason: "refused", wasHandedOver: false))
        turn()
        turn(after: 100_000)
        #expect(receiver.sent.count == 5 && counts.failed == spansOfCall && counts.waiting == 0)
        #expect(news.all == [.refuses("refused")], "told once")
    }

    @Test(arguments: [400, 401, 404, 500, 301]) func aRefusalIsFinal(_ status: Int) {
        end("c")
        turn(after: EndedCalls.pause)
        receiver.answer(status)
        turn()
        turn(after: 100_000)
        #expect(receiver.sent.count == 1 && counts.failed == spansOfCall)
    }

    @Test func rejectedSpansAreCountedAndTold() {
        end("c")
        turn(after: EndedCalls.pause)
        receiver.answer(200, #"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}"#)
        turn()
        #expect(counts.sent == spansOfCall - 2 && counts.failed == 2)
        #expect(news.all == [.rejected(2, reason: "too old")])
    }

    @Test(arguments: ["", "[", "[]", "<html>", #"{"partialSuccess":7}"#, #"{"partialSuccess":{"rejectedSpans":-1}}"#])
    func garbageInAnAnswerChangesNothing(_ body: String) {
        end("c")
        turn(after: EndedCalls.pause)
        receiver.answer(200, body)
        turn()
        #expect(counts.sent == spansOfCall && counts.failed == 0)
    }

    @Test func callsThatEndTogetherShareARequest() {
        for number in 0..<20 { end("c\(number)") }
        turn(after: EndedCalls.pause)
        receiver.answer(200)
        turn()
        #expect(receiver.sent.count == 1 && counts.sent == 20 * spansOfCall)
    }

    @Test func aSlowReceiverCostsABoundedNumberOfSpans() {
        let calls = SpanQueue.mostSpans / spansOfCall + 200
        for number in 0..<calls { end("c\(number)") }
        turn(after: EndedCalls.pause)
        for _ in 0..<200 { turn(after: 100) }
        #expect(receiver.sent.count == 1, "a single request is under way")
        #expect(counts.waiting <= SpanQueue.mostSpans + SpanQueue.spansPerRequest && !ended.isEmpty)
        #expect(worker.nextTurn == .max, "nothing can be done before the receiver answers")
    }

    @Test func aCallWithoutATimelineHasNoSpans() {
        ended.add(CallID("none")!, at: 0)
        turn(after: EndedCalls.pause)
        #expect(receiver.sent.isEmpty && counts.droppedCalls == 0)
    }

    @Test func whoStopsSendsWhatIsLeftAndWaitsForNoReceiver() {
        end("c")
        worker.stop()
        turn()
        #expect(receiver.sent.count == 1 && !worker.hasStopped)
        receiver.answer(503)
        turn()
        #expect(worker.hasStopped && counts.failed == spansOfCall)
    }

    @Test func theMetricsNameEachOutcome() {
        let metrics = worker.report.metrics
        for outcome in ["sent", "failed", "dropped"] {
            #expect(metrics.contains("bellwire_otlp_spans_total{outcome=\"\(outcome)\"} 0\n"))
        }
    }
}
