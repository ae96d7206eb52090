import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// Hands over what is owed to endpoints (docs/decisions/0019): claims it, derives what it is, sends it, and settles what became of it.
///
/// It belongs to one thread, which calls `turn`; neither the store nor an endpoint is ever waited for. Times are of the boot clock in
/// milliseconds, unless they are the store's.
package final class Deliverer {
    private enum Bounds {
        /// How often it is looked everywhere for what is due; what this process has committed is known at once.
        static let look: Int64 = 500
        static let keep: Int64 = 1_000
        static let count: Int64 = 1_000
        /// Before something is tried again that the store has failed at.
        static let pause: Int64 = 100
        /// An attempt begins only while the claim is sure for so long.
        static let margin: Int64 = 500
    }

    private struct Flight {
        let item: OutboxItem
        let target: Int
    }

    private let store: any OutboxStore
    private let sender: any RequestSender
    /// Who brings the answers.
    package var requests: any RequestSender { sender }
    private let executor = WorkExecutor()
    private let newName: () -> String
    private var targets: [Target]
    private var worker: WorkerID
    /// Until when the claims are sure to stand.
    private var sureUntil: Int64 = 0
    private var now: Int64
    /// By which requests are signed.
    private let wall: () -> WallTime
    /// The store's time minus `now`, as it was last known.
    private var storeClock: Milliseconds?
    private var flights: [UInt64: Flight] = [:]
    private var lastFlight: UInt64 = 0
    private var settlements: [(settlement: Settlement, target: Int)] = []
    private var isSettling = false
    /// When it may be tried again to settle: at once, unless the store has just failed.
    private var nextSettling: Int64 = 0
    private var hints: [RecordID] = []
    private var isFollowingHints = false
    private var isStopping = false
    private var nextKeep: Int64? = 0
    private var nextRenewal: Int64? = 0
    private var nextSearch: Int64? = 0
    private var nextCount: Int64? = 0
    private var counts = DeliveryCounts()
    /// The last failure of the store, while it fails.
    private var failure: String?
    /// Told when the store begins to fail, and with nil when it has come back.
    package var onFailure: (String?) -> Void = { _ in }
    /// Told what operators are to learn of an endpoint: each change once, and at most one a minute of whether it is off, and of whether it takes
    /// what it is sent.
    package var onNews: (EndpointName, EndpointNews) -> Void = { _, _ in }
    package let report = DeliveryReport()
    /// False: it tells the store of the endpoints and counts, and leaves the handing over to others.
    private let delivers: Bool
    /// Lines that are claimed, or settled, in one step of the store at most.
    private let inOneStep: Int

    /// `inOneStep`: lines that are claimed, or settled, in one step of the store. `newName`: names that no worker ever had. Nil when an endpoint's networks are none.
    package init?(
        _ store: any OutboxStore, _ endpoints: [WebhookEndpoint], sender: any RequestSender, delivers: Bool = true,
        inOneStep: Int = 64, now: Int64, wall: @escaping () -> WallTime = { .now }, newName: @escaping () -> String
    ) {
        let targets = endpoints.compactMap { Target($0) }
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

    /// These records are owed something new.
    package func committed(_ ids: [RecordID]) {
        // Beyond that it is found by looking everywhere.
        if hints.count < 4_096 { hints += ids }
    }

    /// What it has claimed is given back, and nothing more is begun. `hasStopped` tells when that is done.
    package func stop() { isStopping = true }

    package var hasStopped: Bool { isStopping && flights.isEmpty && settlements.isEmpty && !isSettling }

    /// It is dead: who waited comes to its end.
    package func giveUp() { executor.run() }

    // MARK: Time

    package var nextTurn: Int64 {
        let settling = settlements.isEmpty || isSettling ? .max : max(now, nextSettling)
        if settling == now { return now }
        // Until the store knows the endpoints, nothing else is done.
        if isStopping { return settling }
        guard isKept else { return min(nextKeep ?? .max, settling) }
        if !hints.isEmpty, !isFollowingHints { return now }
        var next = min(settling, nextKeep ?? .max, nextRenewal ?? .max, nextSearch ?? .max, nextCount ?? .max)
        for target in targets { next = min(next, target.nextLook ?? .max) }
        return next
    }

    /// To be called when its time has come, when answers have come, and when the store has answered.
    package func turn(_ now: Int64) {
        self.now = max(self.now, now)
        if let time = store.time { storeClock = time - self.now }
        let answers = sender.take()
        guard isStopping || !answers.isEmpty || !executor.isIdle || nextTurn <= self.now else { return }
        for answer in answers { answered(answer) }
        if isStopping { giveBack() } else { begin() }
        settle()
        executor.run()
        // What that has begun may have been settled at once.
        settle()
        executor.run()
        report.update(counts, isFailing: failure != nil)
    }

    /// The endpoints are in the store.
    private var isKept = false

    private func begin() {
        every(\.nextKeep, Bounds.keep) { [self] () async throws(StoreError) in try await keep() }
        guard isKept else { return }
        every(\.nextCount, Bounds.count) { [self] () async throws(StoreError) in try await count() }
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

    /// Begins a chore whose time has come; it is due again so long after its end.
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

    /// The file is right, once when it begins; what an endpoint said is right after that.
    private func keep() async throws(StoreError) {
        for place in targets.indices { tell(place) }
        // Nothing is tried before the store's time is known: by it attempts are counted and given up.
        let time = try await store.now()
        storeClock = time - now
        if !isKept { try await store.keep(targets.compactMap { KeptEndpoint($0.endpoint) }) }
        let turning = targets.map(\.isTurningOff)
        let known = try await store.endpoints()
        for place in targets.indices {
            guard let known = known.first(where: { $0.name == targets[place].name }) else { continue }
            // An answer from before it was turned off is not the last word.
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

    /// Writes down what the last attempt came to where that is news, and at most once a minute.
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
        // What is still answered by an endpoint that is off is of no matter.
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

    /// The claims are void. Requests that are on their way are not settled: whoever has claimed the lines since sends them again.
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
            targets[place].nextLook = now + Bounds.look
        }
    }

    private func claim(_ place: Int, near: [RecordID]?) async throws(StoreError) {
        let target = targets[place]
        let room = min(Target.mostHeld - target.held, inOneStep)
        guard !target.isOff, room > 0, !isStopping else { return }
        let (began, claimer) = (now, worker)
        let items: [OutboxItem]
        do throws(StoreError) {
            items = try await store.claim(target.name, by: claimer, limit: room, near: near)
        } catch {
            // It may have claimed what it does not know of, and would hold it for as long as it lives.
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
        guard !isStopping, now + Bounds.margin < sureUntil else { return settled(item, .released, place) }
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

    private func request(_ event: WebhookEvent, _ target: Target) -> HTTPRequest? {
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

    /// While the store's clock is looked at, it goes on from when it was last known.
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
        // The endpoint has not been asked: that is no attempt of its.
        case .notTried, .notHandedOver: return settled(flight.item, .released, flight.target)
        }
        let text = answer.outcome.text
        targets[flight.target].unwritten = text
        defer { tell(flight.target) }
        switch Verdict(status: status) {
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

    /// All that has come meanwhile in one step.
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
                // Whether it was settled is not known. If it was, the line may be claimed again already, and would be settled before its time.
                if settler == worker { becomeAnother() }
                nextSettling = now + Bounds.pause
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
            // Its lease may have been over, and begun anew by a claim since: then the line would stand as claimed for as long as it lives.
            becomeAnother()
            counts.endpoints[targets[place].name]?.attempts[.void, default: 0] += 1
        }
    }

    private func release(_ place: Int) {
        targets[place].held -= 1
        // What waits for room is claimed at once, but not one by one.
        guard targets[place].hasMore, targets[place].held <= Target.mostHeld / 2, targets[place].nextLook != nil
        else { return }
        targets[place].hasMore = false
        targets[place].nextLook = now
    }

    /// What is on its way is not waited for: whoever goes on sends it again.
    private func giveBack() {
        for flight in flights.values { settled(flight.item, .released, flight.target) }
        flights = [:]
    }
}

extension WebhookEvent {
    /// Of a record as it is stored; nil for one that this version cannot read.
    package init?(stored record: [UInt8], _ id: RecordID) {
        switch RecordCodec.decode(record, id) {
        case .call(let call): self.init(call: call)
        case .message(let message): self.init(message: message)
        case .alias, .cancelled, .void, .unreadable: return nil
        }
    }
}
