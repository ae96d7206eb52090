import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// Delivers outbox entries to endpoints (docs/decisions/0019): claims due lines, derives the webhook events from the
/// records, sends the events, and settles the outcomes. A line consists of the outbox entries of a record for an
/// endpoint; its entries go in order.
///  A deliverer belongs to the thread that calls `turn`, and never waits for the store or an endpoint. Times are
/// milliseconds of the boot clock, unless they are named as the store's.
package final class Deliverer {
    private enum WebhookBounds {
        /// The interval of the searches for due lines of all processes; commits of this process are known at once.
        static let look: Int64 = 500
        static let keep: Int64 = 1_000
        static let count: Int64 = 1_000
        /// The pause before an operation is repeated after the store has failed.
        static let pause: Int64 = 100
        /// An attempt begins only while the worker lease is sure to last for so long.
        static let margin: Int64 = 500
    }

    private struct Flight {
        let item: OutboxItem
        let target: Int
    }

    private let store: any OutboxStore
    private let sender: any RequestSender
    /// The sender; its descriptor announces responses.
    package var requests: any RequestSender { sender }
    private let executor = WorkExecutor()
    private let newName: () -> String
    private var targets: [WorkerEndpoint]
    private var worker: WorkerID
    /// The time until which the worker lease is sure to last.
    private var sureUntil: Int64 = 0
    private var now: Int64
    /// The time of day for the signatures of requests.
    private let wall: () -> WallTime
    /// The store's time minus `now`, at the last known moment.
    private var storeClock: Milliseconds?
    private var flights: [UInt64: Flight] = [:]
    private var lastFlight: UInt64 = 0
    private var settlements: [(settlement: Settlement, target: Int)] = []
    private var isSettling = false
    /// The time of the next settlement: at once, unless the store has just failed.
    private var nextSettling: Int64 = 0
    private var hints: [RecordID] = []
    private var isFollowingHints = false
    private var isStopping = false
    private var nextKeep: Int64? = 0
    private var nextRenewal: Int64? = 0
    private var nextSearch: Int64? = 0
    private var nextCount: Int64? = 0
    private var counts = DeliveryCounts()
    /// The last failure of the store, while the store fails.
    private var failure: String?
    /// Called with the reason when the store begins to fail, and with nil when the store works again.
    package var onFailure: (String?) -> Void = { _ in }
    /// Called with news of an endpoint for operators. Each change is reported once, and at most one change a minute of
    /// each kind: whether the endpoint is off, and whether the endpoint accepts events.
    package var onNews: (EndpointName, EndpointNews) -> Void = { _, _ in }
    package let report = DeliveryReport()
    /// False when this process only keeps the endpoints in the store and counts, and other processes deliver.
    private let delivers: Bool
    /// The bound of the lines that are claimed, or settled, in one step of the store.
    private let inOneStep: Int

    /// Returns nil when an endpoint has an invalid name or an invalid network.
    /// - Parameters:
    ///   - inOneStep: the bound of the lines that are claimed, or settled, in one step of the store.
    ///   - newName: returns a name that no worker ever had.
    package init?(
        _ store: any OutboxStore, _ endpoints: [WebhookEndpoint], sender: any RequestSender, delivers: Bool = true,
        inOneStep: Int = 64, now: Int64, wall: @escaping () -> WallTime = { .now }, newName: @escaping () -> String
    ) {
        let targets = endpoints.compactMap { WorkerEndpoint($0) }
        guard targets.count == endpoints.count else { return nil }
        self.delivers = delivers
        self.inOneStep = inOneStep
        self.store = store
        self.sender = sender
        self.targets = targets
        self.newName = newName
        self.now = now
        self.wall = wall
        worker = WorkerID(newName())
        for target in targets { counts.endpoints[target.name] = DeliveryCounts.Endpoint() }
    }

    /// Notes that these records have new outbox entries.
    package func committed(_ ids: [RecordID]) {
        // Further entries are found by the regular searches.
        if hints.count < 4_096 { hints += ids }
    }

    /// Begins to give back the claimed lines, and begins no new work. `hasStopped` is true when this is done.
    package func stop() { isStopping = true }

    package var hasStopped: Bool { isStopping && flights.isEmpty && settlements.isEmpty && !isSettling }

    /// Runs the ready work of a worker in a dead simulated process, so that its tasks end.
    package func giveUp() { executor.run() }

    // MARK: Time

    package var nextTurn: Int64 {
        let settling = settlements.isEmpty || isSettling ? .max : max(now, nextSettling)
        if settling == now { return now }
        // A stopping worker only settles; before the endpoints are in the store, a worker only keeps the endpoints.
        if isStopping { return settling }
        guard isKept else { return min(nextKeep ?? .max, settling) }
        if !hints.isEmpty, !isFollowingHints { return now }
        var next = min(settling, nextKeep ?? .max, nextRenewal ?? .max, nextSearch ?? .max, nextCount ?? .max)
        for target in targets { next = min(next, target.nextLook ?? .max) }
        return next
    }

    /// To be called at `nextTurn`, when responses have come, and when the store has answered.
    package func turn(_ now: Int64) {
        self.now = max(self.now, now)
        if let time = store.time { storeClock = time - self.now }
        let answers = sender.take()
        guard isStopping || !answers.isEmpty || !executor.isIdle || nextTurn <= self.now else { return }
        for answer in answers { answered(answer) }
        if isStopping { giveBack() } else { begin() }
        settle()
        executor.run()
        // Work that has just begun may be ready to be settled already.
        settle()
        executor.run()
        report.update(counts, isFailing: failure != nil)
    }

    /// Whether the endpoints are in the store.
    private var isKept = false

    private func begin() {
        every(\.nextKeep, WebhookBounds.keep) { [self] () async throws(StoreError) in try await keep() }
        guard isKept else { return }
        every(\.nextCount, WebhookBounds.count) { [self] () async throws(StoreError) in try await count() }
        guard delivers else {
            (nextRenewal, nextSearch, hints) = (nil, nil, [])
            for place in targets.indices { targets[place].nextLook = nil }
            return
        }
        every(\.nextRenewal, WorkerLease.renewal) { [self] () async throws(StoreError) in try await renew() }
        every(\.nextSearch, WorkerLease.search) { [self] () async throws(StoreError) in
            _ = try await store.recover()
        }
        followHints()
        for place in targets.indices { look(place) }
    }

    /// Begins a chore at its time; the next begins `pause` milliseconds after the end of this chore.
    private func every(
        _ next: ReferenceWritableKeyPath<Deliverer, Int64?>, _ pause: Int64,
        _ chore: @escaping () async throws(StoreError) -> Void
    ) {
        guard let due = self[keyPath: next], due <= now else { return }
        self[keyPath: next] = nil
        start(chore) { [self] in self[keyPath: next] = now + pause }
    }

    private func start(_ work: @escaping () async throws(StoreError) -> Void, done: @escaping () -> Void) {
        executor.start { [self] in
            do throws(StoreError) {
                try await work()
                if failure != nil { onFailure(nil) }
                failure = nil
            } catch {
                if failure == nil { onFailure(error.description) }
                failure = error.description
            }
            done()
        }
    }

    // MARK: Chores

    /// Keeps the endpoints in the store. When the worker begins, the settings file decides whether an endpoint is on;
    /// later the endpoint's own responses decide.
    private func keep() async throws(StoreError) {
        for place in targets.indices { tell(place) }
        // No attempt is made before the store's time is known, because attempts are scheduled and given up by the
        // store's time.
        let time = try await store.now()
        storeClock = time - now
        if !isKept { try await store.keep(targets.compactMap { KeptEndpoint($0.endpoint) }) }
        let turning = targets.map(\.isTurningOff)
        let known = try await store.endpoints()
        for place in targets.indices {
            guard let known = known.first(where: { $0.name == targets[place].name }) else { continue }
            // The store's answer may be older than the decision to turn the endpoint off; then the answer is ignored.
            if !turning[place], !targets[place].isTurningOff { targets[place].isOff = known.isOff }
            tell(place)
            // Another process may have been started with a newer file.
            targets[place].events = EventPatterns(stored: known.patterns)
            counts.endpoints[targets[place].name]?.isOff = targets[place].isOff
        }
        isKept = true
        for place in targets.indices {
            let last = known.first { $0.name == targets[place].name }?.lastAttempt
            try await note(place, over: last)
        }
    }

    /// Stores the outcome of the last attempt where the outcome is new, at most once a minute.
    private func note(_ place: Int, over last: String?) async throws(StoreError) {
        guard let text = targets[place].unwritten else { return }
        guard text != last else { return targets[place].unwritten = nil }
        guard now >= targets[place].nextNote else { return }
        targets[place].nextNote = now + BoundedChange<String>.pause
        try await store.note(text, of: targets[place].name, at: targets[place].endpoint.url.text)
        if targets[place].unwritten == text { targets[place].unwritten = nil }
    }

    private func tell(_ place: Int) {
        let (name, isOff, trouble) = (targets[place].name, targets[place].isOff, targets[place].trouble)
        if targets[place].loggedOff.isToBeTold(isOff, now) { onNews(name, isOff ? .off : .on) }
        // Late responses of an endpoint that is off are not reported.
        guard !isOff, targets[place].loggedTrouble.isToBeTold(trouble, now) else { return }
        onNews(name, trouble.map { .refuses($0) } ?? .takes)
    }

    private func renew() async throws(StoreError) {
        let (began, renewed) = (now, worker)
        if try await store.renew(renewed) {
            sureUntil = max(sureUntil, began + WorkerLease.life)
        } else if renewed == worker {
            becomeAnother()
        }
    }

    /// Continues as a new worker without a lease on the claimed lines. Requests under way are not settled: the next
    /// worker that claims the lines repeats the requests.
    private func becomeAnother() {
        worker = WorkerID(newName())
        sureUntil = 0
        flights = [:]
        settlements = []
        for place in targets.indices { targets[place].held = 0 }
    }

    private func count() async throws(StoreError) {
        for target in targets {
            let count = try await store.count(target.name)
            counts.endpoints[target.name]?.count = count
            counts.endpoints[target.name]?.age = max(0, storeTime - (count.oldest ?? storeTime))
        }
    }

    // MARK: Claiming

    private func followHints() {
        guard !hints.isEmpty, !isFollowingHints else { return }
        let near = Array(hints.prefix(256))
        hints.removeFirst(near.count)
        isFollowingHints = true
        start { [self] () async throws(StoreError) in
            for place in targets.indices { try await claim(place, near: near) }
        } done: { [self] in
            isFollowingHints = false
        }
    }

    private func look(_ place: Int) {
        guard let due = targets[place].nextLook, due <= now else { return }
        targets[place].nextLook = nil
        start { [self] () async throws(StoreError) in
            try await claim(place, near: nil)
        } done: { [self] in
            targets[place].nextLook = now + WebhookBounds.look
        }
    }

    private func claim(_ place: Int, near: [RecordID]?) async throws(StoreError) {
        let target = targets[place]
        let room = min(WorkerEndpoint.mostHeld - target.held, inOneStep)
        guard !target.isOff, room > 0, !isStopping else { return }
        let (began, claimer) = (now, worker)
        let items: [OutboxItem]
        do throws(StoreError) {
            items = try await store.claim(target.name, by: claimer, limit: room, near: near)
        } catch {
            // The store may have claimed lines unknown to this worker. These lines would stay claimed as long as this
            // worker renews its lease, so the worker continues under a new name.
            if claimer == worker { becomeAnother() }
            throw error
        }
        guard claimer == worker, !items.isEmpty else { return }
        sureUntil = max(sureUntil, began + WorkerLease.life)
        targets[place].held += items.count
        if items.count >= room { targets[place].hasMore = true }
        for item in items { send(item, place) }
    }

    // MARK: Sending

    private func send(_ item: OutboxItem, _ place: Int) {
        let target = targets[place]
        guard !isStopping, now + WebhookBounds.margin < sureUntil else { return settled(item, .released, place) }
        guard !target.isOff, let event = WebhookEvent(stored: item.record, item.id) else {
            return settled(item, .givenUp, place, .dead)
        }
        guard target.events.matches(event.type), target.endpoint.format.tells(event) else {
            return settled(item, .taken, place)
        }
        guard let request = request(event, target) else { return settled(item, .givenUp, place) }
        flights[request.id] = Flight(item: item, target: place)
        sender.send(request)
    }

    private func request(_ event: WebhookEvent, _ target: WorkerEndpoint) -> HTTPRequest? {
        let body = WebhookBody(event, format: target.endpoint.format)
        let signature = try? WebhookSignature(
            id: event.id, body: body.bytes, secrets: target.endpoint.secrets, at: wall())
        guard let signature else { return nil }
        lastFlight += 1
        return HTTPRequest(
            id: lastFlight, url: target.endpoint.url.text,
            headers: [("content-type", body.contentType)] + signature.headers, body: body.bytes,
            allowed: target.rules)
    }

    /// The store's time; while the store's clock cannot be read, the last known offset counts.
    private var storeTime: Milliseconds {
        if let time = store.time { return time }
        return (storeClock ?? 0) + now
    }

    private func answered(_ answer: HTTPAnswer) {
        guard let flight = flights.removeValue(forKey: answer.id) else { return }
        let status: Int?
        var asked: Milliseconds?
        switch answer.outcome {
        case .answered(let response):
            status = response.status
            asked = response.retryAfter.map { Milliseconds($0) * 1_000 }
        case .failed: status = nil
        // The endpoint was not reached, so this does not count as an attempt.
        case .notTried, .notHandedOver: return settled(flight.item, .released, flight.target)
        }
        let text = answer.outcome.text
        targets[flight.target].unwritten = text
        defer { tell(flight.target) }
        switch WebhookVerdict(status: status) {
        case .taken:
            targets[flight.target].trouble = nil
            settled(flight.item, .taken, flight.target, .taken)
        case .gone:
            let (name, url) = (targets[flight.target].name, targets[flight.target].endpoint.url.text)
            (targets[flight.target].isOff, targets[flight.target].isTurningOff) = (true, true)
            start { [store] () async throws(StoreError) in
                try await store.turnOff(name, at: url)
            } done: { [self] in
                targets[flight.target].isTurningOff = false
            }
            settled(flight.item, .givenUp, flight.target, .dead)
        case .again:
            targets[flight.target].trouble = text
            again(flight, asked)
        }
    }

    private func again(_ flight: Flight, _ asked: Milliseconds?) {
        let item = flight.item
        let due = RetryDelay.next(
            afterAttempts: item.attempts + 1, first: item.firstAttempt ?? storeTime, now: storeTime,
            retryFor: targets[flight.target].endpoint.retryFor, asked: asked)
        if let due {
            settled(item, .again(after: max(0, due - storeTime)), flight.target, .again)
        } else {
            settled(item, .givenUp, flight.target, .dead)
        }
    }

    // MARK: Settling

    private func settled(
        _ item: OutboxItem, _ outcome: Settlement.Outcome, _ place: Int, _ counted: DeliveryCounts.Outcome? = nil
    ) {
        if let counted { counts.endpoints[targets[place].name]?.attempts[counted, default: 0] += 1 }
        settlements.append((Settlement(item, outcome), place))
    }

    /// Settles the outcomes that have come meanwhile, in one step of the store.
    private func settle() {
        guard !isSettling, !settlements.isEmpty, nextSettling <= now else { return }
        isSettling = true
        let batch = Array(settlements.prefix(inOneStep))
        settlements.removeFirst(batch.count)
        let settler = worker
        start { [self] () async throws(StoreError) in
            do throws(StoreError) {
                let settled = try await store.settle(batch.map(\.settlement), by: settler)
                guard settler == worker else { return }
                for ((settlement, place), settled) in zip(batch, settled) where settler == worker {
                    go(on: settled, settlement, place)
                }
            } catch {
                // Whether the lines were settled is unknown. If so, this worker may have claimed the lines again
                // already, and a repeated settlement would come too early.
                if settler == worker { becomeAnother() }
                nextSettling = now + WebhookBounds.pause
                throw error
            }
        } done: { [self] in
            isSettling = false
        }
    }

    private func go(on settled: Settled, _ settlement: Settlement, _ place: Int) {
        switch settled {
        case .next(let item): send(item, place)
        case .done: release(place)
        case .void:
            // The worker lease may have ended, and begun anew with a later claim. In that case the line would stay
            // claimed as long as this worker lives.
            becomeAnother()
            counts.endpoints[targets[place].name]?.attempts[.void, default: 0] += 1
        }
    }

    private func release(_ place: Int) {
        targets[place].held -= 1
        // Waiting lines are claimed as soon as there is room, but not one by one.
        guard targets[place].hasMore, targets[place].held <= WorkerEndpoint.mostHeld / 2, targets[place].nextLook != nil
        else { return }
        targets[place].hasMore = false
        targets[place].nextLook = now
    }

    /// Gives back the lines of requests under way without waiting for the responses: the worker that claims a line next
    /// sends its event again.
    private func giveBack() {
        for flight in flights.values { settled(flight.item, .released, flight.target) }
        flights = [:]
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
