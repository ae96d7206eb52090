import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// The news of the receiver of spans for operators, in the log.
package enum SpanNews: Sendable, Equatable {
    /// The receiver does not accept spans; the text is the status, or the reason why no response came.
    case refuses(String)
    /// The receiver accepts spans again.
    case takes
    /// The receiver has accepted some spans of a request and rejected others.
    case rejected(Int, reason: String)
}

/// Makes the spans of ended calls from their records and timelines, and sends the spans to a receiver by OTLP/HTTP. The
/// worker belongs to the thread that calls `turn`, and never waits for the store or the receiver. When these fail,
/// spans are lost and no call suffers. Times are milliseconds of the boot clock, unless they are named as the store's.
package final class SpanWorker: DeliveryWorker {
    private enum SpanBounds {
        /// The bound of timelines that are being read.
        static let mostReading = 32
        /// The pause after the store failed to read a timeline, and how long the reading is tried again.
        static let pause: Int64 = 1_000
        static let patience: Int64 = 60_000
        /// The least time between two requests that are not full: calls that end in this time share a request.
        static let interval: Int64 = 500
        static let mostAttempts = 5
        /// The pause after the first failed attempt; each further pause is twice as long.
        static let firstRetry: Int64 = 1_000
        /// The longest pause that a receiver may ask for.
        static let longestRetry: Int64 = 60_000
    }

    private let store: any RecordStore & TimelineStore
    private let settings: OTLPSettings
    private let sender: any RequestSender
    private let ended: EndedCalls
    private let version: String
    private let wall: () -> WallTime
    private let executor = WorkExecutor()
    private var queue = SpanQueue()
    private var now: Int64
    private var reading = 0
    /// The request under way or to be repeated, and its next attempt; the attempt is nil while the request is under
    /// way.
    private var batch: SpanQueue.Batch?
    private var nextAttempt: Int64?
    private var nextRequest: Int64 = 0
    private var lastID: UInt64 = 0
    private var isStopping = false
    private var failure: String?
    private var counts = SpanCounts()
    private var trouble: String?
    private var logged = BoundedChange<String?>(nil)
    private var loggedRejection = BoundedChange<String?>(nil)
    package let report = SpanReport()
    package var onFailure: (String?) -> Void = { _ in }
    /// Called with news of the receiver; at most once a minute for each kind.
    package var onNews: (SpanNews) -> Void = { _ in }

    /// - Parameter version: the version of Bellwire.
    package init(
        _ store: any RecordStore & TimelineStore, _ settings: OTLPSettings, _ ended: EndedCalls,
        sender: any RequestSender, version: String, now: Int64, wall: @escaping () -> WallTime = { .now }
    ) {
        self.store = store
        self.settings = settings
        self.ended = ended
        self.sender = sender
        self.version = version
        self.now = now
        self.wall = wall
    }

    package var requests: any RequestSender { sender }

    /// Does nothing: the coordinator adds ended calls to `EndedCalls`, which counts the calls without room.
    package func committed(_ ids: [RecordID]) {}

    package func stop() { isStopping = true }

    package var hasStopped: Bool { isStopping && ended.isEmpty && reading == 0 && queue.isEmpty && batch == nil }

    package func giveUp() { executor.run() }

    package var nextTurn: Int64 {
        var next = Int64.max
        if hasRoom, let due = ended.nextDue { next = min(next, due) }
        if batch != nil {
            next = min(next, nextAttempt ?? .max)
        } else if !queue.isEmpty {
            next = isFull ? now : min(next, nextRequest)
        }
        return next
    }

    /// Calls wait with little memory while the queue of spans is full.
    private var hasRoom: Bool {
        reading < SpanBounds.mostReading && queue.spans < SpanQueue.mostSpans / 2
            && queue.bytes < SpanQueue.mostBytes / 2
    }

    /// Whether the spans that wait fill a request.
    private var isFull: Bool {
        queue.spans >= SpanQueue.spansPerRequest || queue.bytes >= SpanQueue.bytesPerRequest
    }

    package func turn(_ now: Int64) {
        self.now = max(self.now, now)
        let answers = sender.take()
        guard isStopping || !answers.isEmpty || !executor.isIdle || nextTurn <= self.now else { return }
        for answer in answers where answer.id == lastID { answered(answer) }
        executor.run()
        read()
        executor.run()
        send()
        counts.droppedCalls += ended.takeDropped()
        counts.waiting = queue.spans + (batch?.spans ?? 0)
        report.update(counts)
    }

    // MARK: Reading

    /// Reads some calls in a turn: beside a store that answers at once, the turn is the coordinator's, and requests
    /// wait.
    private func read() {
        guard hasRoom else { return }
        for call in ended.take(SpanBounds.mostReading - reading, until: isStopping ? .max : now) { read(call) }
    }

    private func read(_ call: EndedCalls.Ended) {
        reading += 1
        executor.start { [self] in
            defer { reading -= 1 }
            do throws(StoreError) {
                let time = try await store.now()
                let record = try await store.load([call.callID])[0]?.record
                let timeline = try await store.timeline(of: call.callID)
                if failure != nil { onFailure(nil) }
                failure = nil
                // With `--trace errors`, most calls have no timeline.
                guard !timeline.entries.isEmpty else { return }
                guard case .call(let found)? = record else { return counts.droppedCalls += 1 }
                add(CallSpans.spans(of: found, timeline, SpanClock(wall: wall(), storeTime: time)))
            } catch {
                if failure == nil { onFailure(error.description) }
                failure = error.description
                var again = call
                again.due = now + SpanBounds.pause
                if isStopping || again.due > call.endedAt + SpanBounds.patience {
                    counts.droppedCalls += 1
                } else {
                    ended.add(again)
                }
            }
        }
    }

    private func add(_ spans: [Span]) {
        let item = SpanQueue.Item(bytes: SpanEncoding.encoded(spans, version: version), spans: spans.count)
        if !queue.add(item) { counts.dropped += spans.count }
    }

    // MARK: Sending

    private func send() {
        if batch == nil {
            guard isStopping || isFull || nextRequest <= now, let next = queue.takeBatch() else { return }
            (batch, nextAttempt) = (next, now)
            nextRequest = now + SpanBounds.interval
        }
        guard let due = nextAttempt, isStopping || due <= now, let body = batch?.body else { return }
        nextAttempt = nil
        batch?.attempts += 1
        lastID += 1
        var request = HTTPRequest(
            id: lastID, url: settings.url, headers: [("content-type", "application/json")] + settings.headers,
            body: body)
        // The operator has named the receiver.
        request.isToProvider = true
        request.allowsPlainHTTP = true
        sender.send(request)
    }

    private func answered(_ answer: HTTPAnswer) {
        guard let batch, nextAttempt == nil else { return }
        switch SpanVerdict(answer.outcome) {
        case .taken(let rejected, let reason):
            let rejected = min(rejected, batch.spans)
            counts.sent += batch.spans - rejected
            counts.failed += rejected
            trouble = nil
            tell(rejected, reason)
            self.batch = nil
        case .refused:
            trouble = answer.outcome.text
            counts.failed += batch.spans
            self.batch = nil
        case .again(let asked):
            trouble = answer.outcome.text ?? trouble
            scheduleRetry(batch, after: asked)
        }
        if logged.isToBeTold(trouble, now) { onNews(trouble.map { .refuses($0) } ?? .takes) }
    }

    private func scheduleRetry(_ batch: SpanQueue.Batch, after asked: Int?) {
        // A process that stops does not wait for the receiver.
        guard batch.attempts < SpanBounds.mostAttempts, !isStopping else {
            counts.failed += batch.spans
            self.batch = nil
            return
        }
        let pause = SpanBounds.firstRetry << Int64(batch.attempts - 1)
        // Coordinators whose requests failed together must not come again together.
        let spread = Int64.random(in: 0...pause / 4)
        nextAttempt = now + min(SpanBounds.longestRetry, max(pause + spread, Int64(asked ?? 0) * 1_000))
    }

    private func tell(_ rejected: Int, _ reason: String?) {
        let reason = rejected > 0 || reason != nil ? reason ?? "no reason given" : nil
        guard loggedRejection.isToBeTold(reason, now), let reason else { return }
        onNews(.rejected(rejected, reason: reason))
    }
}
