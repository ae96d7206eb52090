import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// Closes the rooms of calls at LiveKit servers (docs/decisions/0031): claims due lines of the rooms' outboxes, judges
/// each entry by the present state of its call, asks the server, and settles the outcomes.
///
/// The worker belongs to the thread that calls `turn`, and never waits for the store or a server. Times are
/// milliseconds of the boot clock, unless they are named as the store's.
package final class RoomCloser: LeasedWorker {
    private enum RoomBounds {
        /// The interval of the searches for due lines of all processes.
        static let look: Int64 = 500
        static let keep: Int64 = 1_000
        /// An attempt begins only while the worker lease is sure to last for so long.
        static let margin: Int64 = 500
        /// How long an entry is tried again after its first attempt, in seconds.
        static let retryFor = 600
        /// The bound of the lines that a worker has claimed for a server.
        static let mostClaimed = 64
    }

    /// An entry whose duties are done in turn.
    private struct RoomAttempt {
        let entry: OutboxItem
        /// The server's index in `servers`.
        let place: Int
        let room: String
        /// The call at the revision of the entry.
        let call: Call
        var duties: [RoomDuty]
    }

    private struct WorkerServer {
        let outbox: KeptEndpoint
        let server: MediaServer
        var claimed = 0
        /// Whether there were more lines than this worker could claim.
        var hasMore = false
        /// The time of the next search for lines; nil during the search.
        var nextLook: Int64? = 0
        /// The reason why the last request failed; nil after a success.
        var trouble: String?
        var logged = BoundedChange<String?>(nil)
        /// The result of the last request, for operators.
        var lastAttempt: String?
        var noted = BoundedChange<String?>(nil)
    }

    private let store: any OutboxStore & RecordStore
    let state: LeasedWorkerState<RecordID, Deliverer.PlacedSettlement>
    private var servers: [WorkerServer]
    private let wall: () -> WallTime
    private var attempts: [UInt64: RoomAttempt] = [:]
    private var lastRequest: UInt64 = 0
    /// The number of attempts whose call is being read.
    private var reading = 0
    private var counts: RoomCounts
    /// Called with a server's name and the reason when the server begins to refuse requests, and with nil when the
    /// server takes requests again; at most once a minute.
    package var onNews: (String, String?) -> Void = { _, _ in }
    package let report: RoomReport

    /// - Parameters:
    ///   - delivers: false when other processes close the rooms.
    ///   - inOneStep: the bound of the lines that are claimed, or settled, in one step of the store.
    ///   - newName: returns a name that no worker ever had.
    package init(
        _ store: any OutboxStore & RecordStore, _ settings: MediaSettings, sender: any RequestSender,
        delivers: Bool = true, inOneStep: Int = 64, now: Int64, wall: @escaping () -> WallTime = { .now },
        newName: @escaping () -> String
    ) {
        self.store = store
        servers = settings.outboxes.compactMap { outbox in
            settings.servers.first { $0.name == outbox.name.mediaServer }
                .map { WorkerServer(outbox: outbox, server: $0) }
        }
        self.wall = wall
        state = LeasedWorkerState(
            store, sender: sender, delivers: delivers, inOneStep: inOneStep, now: now, newName: newName)
        counts = RoomCounts(servers.map(\.server.name))
        report = RoomReport(counts)
    }

    /// Notes that these calls have new outbox entries.
    package func committed(_ ids: [RecordID]) {
        if state.hints.count < LeasedWorkerBounds.hints { state.hints += ids }
    }

    package var hasStopped: Bool { isStopping && attempts.isEmpty && reading == 0 && state.hasSettled }

    // MARK: Time

    var nextWork: Int64 { state.delivers ? servers.map { $0.nextLook ?? .max }.min() ?? .max : .max }

    var nextRelease: Int64 { .max }

    /// Does nothing: each request begins well before the end of the worker lease.
    func checkLease() {}

    func endTurn() {
        settle()
        state.executor.run()
        // Work that has just begun may be ready to be settled already.
        settle()
        state.executor.run()
        report.update(counts)
    }

    // MARK: Chores

    /// Keeps the outboxes in the store, so that every coordinator writes entries for them, and the result of the last
    /// request to each server.
    func beginKeeping() {
        // A chore without a step of the store would count as an answer of the store.
        guard !state.isKept || servers.contains(where: { $0.noted.isDue($0.lastAttempt, now) }) else { return }
        every(\.state.nextKeep, RoomBounds.keep) { [self] () async throws(StoreError) in
            if !state.isKept {
                try await readClock()
                try await store.keep(servers.map(\.outbox))
                state.isKept = true
            }
            for place in servers.indices { try await note(place) }
        }
    }

    private func note(_ place: Int) async throws(StoreError) {
        let outbox = servers[place].outbox
        let last = servers[place].lastAttempt
        guard servers[place].noted.isToBeTold(last, now), let text = last else { return }
        do throws(StoreError) {
            try await store.note(text, of: outbox.name, at: outbox.url)
        } catch {
            servers[place].noted = BoundedChange(nil)
            throw error
        }
    }

    func beginChores() {}

    /// Counts nothing. Reads the store's clock, by which requests are tried again, and keeps the outboxes that the
    /// store has lost.
    func count() async throws(StoreError) {
        try await readClock()
        try await store.keepLost(of: servers.map(\.outbox), known: try await store.endpoints())
    }

    private func readClock() async throws(StoreError) {
        let time = try await store.now()
        state.storeClock = time - now
    }

    func recover() async throws(StoreError) { _ = try await store.recover() }

    func beginWork() {
        followHints()
        for place in servers.indices { look(place) }
    }

    private func tell(_ place: Int) {
        let trouble = servers[place].trouble
        if servers[place].logged.isToBeTold(trouble, now) { onNews(servers[place].server.name, trouble) }
    }

    func renewed(at began: Int64) { state.sureUntil = max(state.sureUntil, began + WorkerLease.life) }

    func forgetClaims() {
        attempts = [:]
        for place in servers.indices { servers[place].claimed = 0 }
    }

    // MARK: Claiming

    func claim(near hints: [RecordID]) async throws(StoreError) {
        for place in servers.indices { try await claim(place, near: hints) }
    }

    private func look(_ place: Int) {
        guard let due = servers[place].nextLook, due <= now else { return }
        servers[place].nextLook = nil
        start { [self] () async throws(StoreError) in
            try await claim(place, near: nil)
        } done: { [self] _ in
            servers[place].nextLook = now + RoomBounds.look
        }
    }

    private func claim(_ place: Int, near: [RecordID]?) async throws(StoreError) {
        let server = servers[place]
        let claimed = try await claim(room: RoomBounds.mostClaimed - server.claimed) {
            (worker, limit) async throws(StoreError) in
            try await store.claim(server.outbox.name, by: worker, limit: limit, near: near)
        }
        guard let claimed else { return }
        state.sureUntil = max(state.sureUntil, claimed.began + WorkerLease.life)
        servers[place].claimed += claimed.claims.count
        if claimed.isFull { servers[place].hasMore = true }
        for entry in claimed.claims { begin(entry, place) }
    }

    // MARK: Attempts

    /// Whether the worker lease is sure to last while an attempt begins.
    private var mayBegin: Bool { !isStopping && now + RoomBounds.margin < state.sureUntil }

    /// Begins an attempt for an entry.
    private func begin(_ entry: OutboxItem, _ place: Int) {
        guard mayBegin else { return settled(entry, .released, place) }
        guard case .call(let call) = RecordCodec.decode(entry.record, entry.id),
            let room = servers[place].server.room(of: call.callID, call.mode)
        else { return settled(entry, .taken, place, .givenUp) }
        let duties = RoomDuty.duties(of: call)
        goOn(RoomAttempt(entry: entry, place: place, room: room, call: call, duties: duties))
    }

    /// Reads the call, and sends the request of the next duty that stands in the present call: while a request was
    /// under way, a member may have joined again. Settles the entry after the last duty.
    private func goOn(_ attempt: RoomAttempt) {
        guard !attempt.duties.isEmpty else { return settled(attempt.entry, .taken, attempt.place) }
        let reader = worker
        var present = attempt.call
        reading += 1
        start { [self] () async throws(StoreError) in
            if case .call(let found)? = try await store.load([present.callID])[0]?.record { present = found }
        } done: { [self] isDone in
            reading -= 1
            guard reader == worker else { return }
            guard isDone else { return settled(attempt.entry, .released, attempt.place) }
            var standing = attempt
            standing.duties.removeAll { !$0.stands(in: present) }
            count(.skipped, attempt.place, attempt.duties.count - standing.duties.count)
            send(standing)
        }
    }

    private func send(_ attempt: RoomAttempt) {
        guard let duty = attempt.duties.first else { return settled(attempt.entry, .taken, attempt.place) }
        guard mayBegin else { return settled(attempt.entry, .released, attempt.place) }
        lastRequest += 1
        let request = duty.request(
            lastRequest, servers[attempt.place].server, room: attempt.room, wall: wall(), storeTime: storeTime)
        guard let request else { return scheduleRetry(attempt, nil) }
        attempts[request.id] = attempt
        state.sender.send(request)
    }

    func answered(_ answer: HTTPAnswer) {
        guard var attempt = attempts.removeValue(forKey: answer.id) else { return }
        let response: HTTPAnswer.Response?
        switch answer.outcome {
        case .answered(let answered): response = answered
        case .failed: response = nil
        // The server was not reached, so this does not count as an attempt.
        case .notTried, .notHandedOver: return settled(attempt.entry, .released, attempt.place)
        }
        defer { tell(attempt.place) }
        servers[attempt.place].lastAttempt = answer.outcome.text
        switch response.map({ RoomVerdict($0) }) ?? .again {
        case .again:
            servers[attempt.place].trouble = answer.outcome.text
            return scheduleRetry(attempt, response?.retryAfter)
        case .done: count(.done, attempt.place)
        case .gone:
            servers[attempt.place].lastAttempt = "HTTP 404, no such room"
            count(.gone, attempt.place)
        }
        servers[attempt.place].trouble = nil
        attempt.duties.removeFirst()
        goOn(attempt)
    }

    /// Puts an entry off, or gives the entry up.
    private func scheduleRetry(_ attempt: RoomAttempt, _ asked: Int?) {
        let entry = attempt.entry
        count(.failed, attempt.place)
        let due = RetryDelay.next(
            afterAttempts: entry.attempts + 1, first: entry.firstAttempt ?? storeTime, now: storeTime,
            retryFor: RoomBounds.retryFor, asked: asked.map { Milliseconds($0) * 1_000 })
        if let due {
            settled(entry, .again(after: max(0, due - storeTime)), attempt.place)
        } else {
            count(.givenUp, attempt.place, attempt.duties.count)
            settled(entry, .taken, attempt.place)
        }
    }

    private func count(_ outcome: RoomCounts.Outcome, _ place: Int, _ number: Int = 1) {
        counts.add(outcome, servers[place].server.name, number)
    }

    // MARK: Settling

    private func settled(
        _ entry: OutboxItem, _ outcome: Settlement.Outcome, _ place: Int, _ counted: RoomCounts.Outcome? = nil
    ) {
        if let counted { count(counted, place) }
        state.settlements.append(Deliverer.PlacedSettlement(settlement: Settlement(entry, outcome), place: place))
    }

    func settle(_ batch: [Deliverer.PlacedSettlement], by worker: WorkerID) async throws(StoreError) -> [Settled] {
        try await store.settle(batch.map(\.settlement), by: worker)
    }

    func go(on settled: Settled, _ settlement: Deliverer.PlacedSettlement) {
        switch settled {
        case .next(let entry): begin(entry, settlement.place)
        case .done: release(settlement.place)
        // The worker lease may have ended, and begun anew with a later claim.
        case .void: becomeAnother()
        }
    }

    private func release(_ place: Int) {
        servers[place].claimed -= 1
        // Waiting lines are claimed as soon as there is room, but not one by one.
        guard servers[place].hasMore, servers[place].claimed <= RoomBounds.mostClaimed / 2,
            servers[place].nextLook != nil
        else { return }
        servers[place].hasMore = false
        servers[place].nextLook = now
    }

    /// Gives back the lines of requests under way without waiting for the responses.
    func giveBack() {
        for attempt in attempts.values { settled(attempt.entry, .released, attempt.place) }
        attempts = [:]
    }
}
