import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// Delivers outbox entries to endpoints (docs/decisions/0019): claims due lines, derives the webhook events from the
/// records, sends the events, and settles the outcomes. A line consists of the outbox entries of a record for an
/// endpoint; its entries go in order.
///
/// A deliverer belongs to the thread that calls `turn`, and never waits for the store or an endpoint. Times are
/// milliseconds of the boot clock, unless they are named as the store's.
package final class Deliverer: LeasedWorker {
    private enum WebhookBounds {
        /// The interval of the searches for due lines of all processes; commits of this process are known at once.
        static let look: Int64 = 500
        static let keep: Int64 = 1_000
        /// An attempt begins only while the worker lease is sure to last for so long.
        static let margin: Int64 = 500
    }

    private struct WebhookAttempt {
        let entry: OutboxItem
        /// The endpoint's index in `endpoints`.
        let place: Int
    }

    /// The outcome of an outbox entry, with its endpoint's index in `endpoints`.
    struct PlacedSettlement {
        let settlement: Settlement
        let place: Int
    }

    private let store: any OutboxStore
    let state: LeasedWorkerState<RecordID, PlacedSettlement>
    private var endpoints: [WorkerEndpoint]
    /// The time of day for the signatures of requests.
    private let wall: () -> WallTime
    private var attempts: [UInt64: WebhookAttempt] = [:]
    private var lastAttempt: UInt64 = 0
    private var counts = DeliveryCounts()
    /// Called with news of an endpoint for operators. Each change is reported once, and at most one change a minute of
    /// each kind: whether the endpoint is off, and whether the endpoint accepts events.
    package var onNews: (EndpointName, EndpointNews) -> Void = { _, _ in }
    package let report = DeliveryReport()

    /// Returns nil when an endpoint has an invalid name or an invalid network.
    /// - Parameters:
    ///   - inOneStep: the bound of the lines that are claimed, or settled, in one step of the store.
    ///   - newName: returns a name that no worker ever had.
    package init?(
        _ store: any OutboxStore, _ endpoints: [WebhookEndpoint], sender: any RequestSender, delivers: Bool = true,
        inOneStep: Int = 64, now: Int64, wall: @escaping () -> WallTime = { .now }, newName: @escaping () -> String
    ) {
        let known = endpoints.compactMap { WorkerEndpoint($0) }
        guard known.count == endpoints.count else { return nil }
        self.store = store
        self.endpoints = known
        self.wall = wall
        state = LeasedWorkerState(
            store, sender: sender, delivers: delivers, inOneStep: inOneStep, now: now, newName: newName)
        for endpoint in known { counts.endpoints[endpoint.name] = DeliveryCounts.Endpoint() }
    }

    /// Notes that these records have new outbox entries.
    package func committed(_ ids: [RecordID]) {
        // Further entries are found by the regular searches.
        if state.hints.count < LeasedWorkerBounds.hints { state.hints += ids }
    }

    package var hasStopped: Bool { isStopping && attempts.isEmpty && state.hasSettled }

    // MARK: Time

    var nextWork: Int64 {
        var next = state.nextKeep ?? .max
        guard state.delivers else { return next }
        for endpoint in endpoints { next = min(next, endpoint.nextLook ?? .max) }
        return next
    }

    var nextRelease: Int64 { .max }

    /// Does nothing: each attempt begins well before the end of the worker lease.
    func checkLease() {}

    func endTurn() {
        settle()
        state.executor.run()
        // Work that has just begun may be ready to be settled already.
        settle()
        state.executor.run()
        report.update(counts, isFailing: state.isFailing)
    }

    // MARK: Chores

    func beginKeeping() {
        every(\.state.nextKeep, WebhookBounds.keep) { [self] () async throws(StoreError) in try await keep() }
    }

    func beginChores() {}

    func recover() async throws(StoreError) { _ = try await store.recover() }

    func beginWork() {
        followHints()
        for place in endpoints.indices { look(place) }
    }

    /// Keeps the endpoints in the store. When the worker begins, the settings file decides whether an endpoint is on;
    /// later the endpoint's own responses decide.
    private func keep() async throws(StoreError) {
        for place in endpoints.indices { tell(place) }
        // No attempt is made before the store's time is known, because attempts are scheduled and given up by the
        // store's time.
        let time = try await store.now()
        state.storeClock = time - now
        let own = endpoints.compactMap { KeptEndpoint($0.settings) }
        if !state.isKept { try await store.keep(own) }
        let turning = endpoints.map(\.isTurningOff)
        let known = try await store.endpoints()
        try await store.keepLost(of: own, known: known)
        for place in endpoints.indices {
            guard let known = known.first(where: { $0.name == endpoints[place].name }) else { continue }
            // The store's answer may be older than the decision to turn the endpoint off; then the answer is ignored.
            if !turning[place], !endpoints[place].isTurningOff { endpoints[place].isOff = known.isOff }
            tell(place)
            // Another process may have been started with a newer file.
            endpoints[place].events = EventPatterns(stored: known.patterns)
            counts.endpoints[endpoints[place].name]?.isOff = endpoints[place].isOff
        }
        state.isKept = true
        for place in endpoints.indices {
            let last = known.first { $0.name == endpoints[place].name }?.lastAttempt
            try await note(place, over: last)
        }
    }

    /// Stores the outcome of the last attempt where the outcome is new, at most once a minute.
    private func note(_ place: Int, over last: String?) async throws(StoreError) {
        guard let text = endpoints[place].unwritten else { return }
        guard text != last else { return endpoints[place].unwritten = nil }
        guard now >= endpoints[place].nextNote else { return }
        endpoints[place].nextNote = now + BoundedChange<String>.pause
        try await store.note(text, of: endpoints[place].name, at: endpoints[place].settings.url.text)
        if endpoints[place].unwritten == text { endpoints[place].unwritten = nil }
    }

    private func tell(_ place: Int) {
        let (name, isOff, trouble) = (endpoints[place].name, endpoints[place].isOff, endpoints[place].trouble)
        if endpoints[place].loggedOff.isToBeTold(isOff, now) { onNews(name, isOff ? .off : .on) }
        // Late responses of an endpoint that is off are not reported.
        guard !isOff, endpoints[place].loggedTrouble.isToBeTold(trouble, now) else { return }
        onNews(name, trouble.map { .refuses($0) } ?? .takes)
    }

    func renewed(at began: Int64) { state.sureUntil = max(state.sureUntil, began + WorkerLease.life) }

    func forgetClaims() {
        attempts = [:]
        for place in endpoints.indices { endpoints[place].claimed = 0 }
    }

    func count() async throws(StoreError) {
        for endpoint in endpoints {
            let count = try await store.count(endpoint.name)
            counts.endpoints[endpoint.name]?.count = count
            counts.endpoints[endpoint.name]?.age = max(0, storeTime - (count.oldest ?? storeTime))
        }
    }

    // MARK: Claiming

    func claim(near hints: [RecordID]) async throws(StoreError) {
        for place in endpoints.indices { try await claim(place, near: hints) }
    }

    private func look(_ place: Int) {
        guard let due = endpoints[place].nextLook, due <= now else { return }
        endpoints[place].nextLook = nil
        start { [self] () async throws(StoreError) in
            try await claim(place, near: nil)
        } done: { [self] _ in
            endpoints[place].nextLook = now + WebhookBounds.look
        }
    }

    private func claim(_ place: Int, near: [RecordID]?) async throws(StoreError) {
        let endpoint = endpoints[place]
        guard !endpoint.isOff else { return }
        let claimed = try await claim(room: WorkerEndpoint.mostClaimed - endpoint.claimed) {
            (worker, limit) async throws(StoreError) in
            try await store.claim(endpoint.name, by: worker, limit: limit, near: near)
        }
        guard let claimed else { return }
        state.sureUntil = max(state.sureUntil, claimed.began + WorkerLease.life)
        endpoints[place].claimed += claimed.claims.count
        if claimed.isFull { endpoints[place].hasMore = true }
        for entry in claimed.claims { send(entry, place) }
    }

    // MARK: Sending

    private func send(_ entry: OutboxItem, _ place: Int) {
        let endpoint = endpoints[place]
        guard !isStopping, now + WebhookBounds.margin < state.sureUntil else { return settled(entry, .released, place) }
        guard !endpoint.isOff, let event = WebhookEvent(stored: entry.record, entry.id) else {
            return settled(entry, .givenUp, place, .dead)
        }
        guard endpoint.events.matches(event.type), endpoint.settings.format.tells(event) else {
            return settled(entry, .taken, place)
        }
        guard let request = request(event, endpoint) else { return settled(entry, .givenUp, place) }
        attempts[request.id] = WebhookAttempt(entry: entry, place: place)
        state.sender.send(request)
    }

    private func request(_ event: WebhookEvent, _ endpoint: WorkerEndpoint) -> HTTPRequest? {
        let body = WebhookBody(event, format: endpoint.settings.format)
        let signature = try? WebhookSignature(
            id: event.id, body: body.bytes, secrets: endpoint.settings.secrets, at: wall())
        guard let signature else { return nil }
        lastAttempt += 1
        return HTTPRequest(
            id: lastAttempt, url: endpoint.settings.url.text,
            headers: [("content-type", body.contentType)] + signature.headers, body: body.bytes,
            allowed: endpoint.rules)
    }

    func answered(_ answer: HTTPAnswer) {
        guard let attempt = attempts.removeValue(forKey: answer.id) else { return }
        let status: Int?
        var asked: Milliseconds?
        switch answer.outcome {
        case .answered(let response):
            status = response.status
            asked = response.retryAfter.map { Milliseconds($0) * 1_000 }
        case .failed: status = nil
        // The endpoint was not reached, so this does not count as an attempt.
        case .notTried, .notHandedOver: return settled(attempt.entry, .released, attempt.place)
        }
        let text = answer.outcome.text
        endpoints[attempt.place].unwritten = text
        defer { tell(attempt.place) }
        switch WebhookVerdict(status: status) {
        case .taken:
            endpoints[attempt.place].trouble = nil
            settled(attempt.entry, .taken, attempt.place, .taken)
        case .gone:
            let (name, url) = (endpoints[attempt.place].name, endpoints[attempt.place].settings.url.text)
            (endpoints[attempt.place].isOff, endpoints[attempt.place].isTurningOff) = (true, true)
            start { [store] () async throws(StoreError) in
                try await store.turnOff(name, at: url)
            } done: { [self] _ in
                endpoints[attempt.place].isTurningOff = false
            }
            settled(attempt.entry, .givenUp, attempt.place, .dead)
        case .again:
            endpoints[attempt.place].trouble = text
            scheduleRetry(attempt, asked)
        }
    }

    /// Schedules the next attempt (`RetryDelay`), or makes the entry a dead letter when no time for attempts is left.
    /// `asked` is the delay of the receiver's `Retry-After`.
    private func scheduleRetry(_ attempt: WebhookAttempt, _ asked: Milliseconds?) {
        let entry = attempt.entry
        let due = RetryDelay.next(
            afterAttempts: entry.attempts + 1, first: entry.firstAttempt ?? storeTime, now: storeTime,
            retryFor: endpoints[attempt.place].settings.retryFor, asked: asked)
        if let due {
            settled(entry, .again(after: max(0, due - storeTime)), attempt.place, .again)
        } else {
            settled(entry, .givenUp, attempt.place, .dead)
        }
    }

    // MARK: Settling

    private func settled(
        _ entry: OutboxItem, _ outcome: Settlement.Outcome, _ place: Int, _ counted: DeliveryCounts.Outcome? = nil
    ) {
        if let counted { counts.endpoints[endpoints[place].name]?.attempts[counted, default: 0] += 1 }
        state.settlements.append(PlacedSettlement(settlement: Settlement(entry, outcome), place: place))
    }

    func settle(_ batch: [PlacedSettlement], by worker: WorkerID) async throws(StoreError) -> [Settled] {
        try await store.settle(batch.map(\.settlement), by: worker)
    }

    func go(on settled: Settled, _ settlement: PlacedSettlement) {
        let place = settlement.place
        switch settled {
        case .next(let entry): send(entry, place)
        case .done: release(place)
        case .void:
            // The worker lease may have ended, and begun anew with a later claim. In that case the line would stay
            // claimed as long as this worker lives.
            becomeAnother()
            counts.endpoints[endpoints[place].name]?.attempts[.void, default: 0] += 1
        }
    }

    private func release(_ place: Int) {
        endpoints[place].claimed -= 1
        // Waiting lines are claimed as soon as there is room, but not one by one.
        guard endpoints[place].hasMore, endpoints[place].claimed <= WorkerEndpoint.mostClaimed / 2,
            endpoints[place].nextLook != nil
        else { return }
        endpoints[place].hasMore = false
        endpoints[place].nextLook = now
    }

    /// Gives back the lines of requests under way without waiting for the responses: the worker that claims a line next
    /// sends its event again.
    func giveBack() {
        for attempt in attempts.values { settled(attempt.entry, .released, attempt.place) }
        attempts = [:]
    }
}

extension WebhookEvent {
    /// Makes the event for a stored record; returns nil when this version cannot read the record.
    package init?(stored record: [UInt8], _ id: RecordID) {
        switch RecordCodec.decode(record, id) {
        case .call(let call): self.init(call: call)
        case .message(let message): self.init(message: message)
        case .alias, .cancelled, .void, .unreadable: return nil
        }
    }
}
