import CallCore
import CallStore
import HistoryChecker
import SignalingProtocol

/// A coordinator's connection to the shared store. Every operation takes time, in which the other coordinators go on.
/// An operation may fail, may run and lose its answer, or may be the last operation of a coordinator that dies.
final class SimulatedStore: CallStore, OutboxStore, PushStore {
    let store: MemoryCallStore
    unowned(unsafe) let world: World
    private unowned(unsafe) let owner: SimulatedCoordinator
    private let mix: FaultMix
    private var random: SeededRandom
    /// A random start for the boot clock of this coordinator's machine, since no decision may depend on when the
    /// machine was started.
    private let bootedAt: Milliseconds
    private var clock = StoreClock()
    /// The coordinators' shared clock as this coordinator last read or wrote it.
    private var shared = SharedClock()
    /// Called when a suspended operation goes on.
    var onAnswer: () -> Void = {}
    /// Whether the coordinator has died within an operation: no later operation of the coordinator runs.
    private(set) var isDead = false

    init(_ store: MemoryCallStore, of owner: SimulatedCoordinator, in world: World, random: SeededRandom) {
        self.store = store
        self.owner = owner
        self.world = world
        self.mix = world.mix
        self.random = random
        bootedAt = self.random.between(0, 1_000_000_000)
    }

    /// Records that the coordinator was killed from outside.
    func die() { isDead = true }

    var summary: String { "simulated" }

    /// Counting takes no time, since nothing but metrics depends on the numbers.
    func liveCounts() -> LiveCounts { store.liveCounts() }

    func tidyLiveCounts() {}
    var answersAtOnce: Bool { false }

    var isShared: Bool { true }

    var waitsForReplicas: Bool { world.plan.commitsInSteps }

    /// Runs an operation, with its delays and faults.
    /// - Parameter server: the server of a cluster that runs the operation; nil for an operation at no particular
    ///   server.
    func run<Value>(
        isWrite: Bool = true, at server: Int? = nil, _ body: () throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await pass()
        if let server { try await reach(server) }
        if isWrite, world.isStoreReadOnly { throw StoreError(.notWritten, "the store takes no writes") }
        // The write is dated by this coordinator's clock.
        world.asksAt = clock.now(boot: boot)
        let result = Result { () throws(StoreError) in try body() }
        // Operations of other coordinators, while the answer is on its way, are not dated by this clock.
        world.asksAt = nil
        let value = try result.get()
        if world.hasFaults, random.chance(mix.lostAnswer) {
            world.storeFailed("store answer lost")
            world.tell("\(owner.clientID): an operation was done, and its answer lost")
            throw StoreError(.unreachable, "the answer was lost")
        }
        try await pass()
        return value
    }

    private func pass() async throws(StoreError) {
        if isDead { throw StoreError(.unreachable, "dead") }
        if world.hasFaults {
            if random.chance(mix.crashAtOperation) {
                world.crash(owner.clientID)
                throw StoreError(.unreachable, "dead")
            }
            // In a world without freezes no random number is drawn, so that a seed makes the same world as before this
            // fault existed.
            if mix.freezeAtOperation > 0, random.chance(mix.freezeAtOperation) {
                world.freeze(owner, for: random.pick([120, 400, 2_500, 6_000]))
            }
            if random.chance(mix.storeFailure) {
                world.storeFailed("store operation failed")
                world.tell("\(owner.clientID): an operation failed")
                throw StoreError(.unreachable, "the store failed")
            }
        }
        // Half of the latency comes before the operation, and half after the operation.
        await wait(random.between(0, mix.storeLatency) / 2)
        if isDead { throw StoreError(.unreachable, "dead") }
        if world.isStoreDown { throw StoreError(.unreachable, "the store is down") }
    }

    /// Waits for a server of the cluster: for a slow server, and while its slots are moved.
    private func reach(_ server: Int) async throws(StoreError) {
        guard let cluster = world.cluster else { return }
        if cluster.slowness > 0 { await wait(random.between(0, cluster.delay(at: server))) }
        let end = cluster.moveEnd(at: server)
        if end > world.now {
            let longest: Milliseconds = 1_000
            await wait(min(end - world.now, longest))
            guard end <= world.now else { throw StoreError(.unreachable, "slots are being moved for too long") }
        }
        if isDead { throw StoreError(.unreachable, "dead") }
        if world.cluster?.away.contains(server) ?? false { throw StoreError(.unreachable, "a server is away") }
    }

    /// Lets time pass for the other parts of the world. A frozen coordinator goes on only after the freeze.
    func wait(_ duration: Milliseconds) async {
        var until = world.now + duration
        while !isDead {
            until = max(until, owner.frozenUntil)
            guard until > world.now else { return }
            await world.pass(until: until) { [self] in onAnswer() }
        }
    }

    // MARK: Operations

    private var boot: Milliseconds { world.now - world.start + bootedAt }

    func now() async throws(StoreError) -> Milliseconds {
        if isDead { throw StoreError(.unreachable, "dead") }
        if world.isStoreDown { throw StoreError(.unreachable, "the store is down") }
        if clock.isDoubtful || clock.now(boot: boot) == nil { try await lookAtClock() }
        return clock.now(boot: boot)!
    }

    var time: Milliseconds? { isDead || clock.isDoubtful ? nil : clock.now(boot: boot) }

    /// The lag of the store's time behind the world's time, in milliseconds.
    var lag: Milliseconds { clock.now(boot: boot).map { world.now - $0 } ?? 0 }

    /// Reads the clock of the store's machine and the `SharedClock`, as with Redis. Writes the `SharedClock` at
    /// the first look, when the clock was set, or when the last write is `ClockBounds.telling` ago, unless another
    /// coordinator was faster. Reads again if the coordinator was frozen in between.
    @discardableResult
    func lookAtClock() async throws(StoreError) -> Bool {
        let isFirst = clock.now(boot: boot) == nil
        if isFirst { world.undoUnnoticedStep() }
        while true {
            let before = boot
            let (raw, found) = try await run(isWrite: false, at: world.cluster?.clock) { () throws(StoreError) in
                (world.storesMachine, world.sharedClock)
            }
            let after = boot
            guard after - before <= ClockBounds.step else { continue }
            var agreed = found
            let expected = clock.now(nearest: raw + agreed.correction, between: before, after)
            let now = agreed.look(raw: raw, expected: expected, wall: world.now)
            let isNews = isFirst || agreed.isNews(since: found)
            if isNews, try await !agree(on: agreed, insteadOf: found, now) { continue }
            shared = agreed
            clock.adopt(now, between: before, after)
            return isNews
        }
    }

    private func agree(
        on agreed: SharedClock, insteadOf found: SharedClock, _ now: Milliseconds
    ) async throws(StoreError) -> Bool {
        try await run(at: world.cluster?.clock) { () throws(StoreError) in
            guard world.sharedClock == found else { return false }
            world.sharedClock = agreed
            if agreed.steps > found.steps {
                world.noticedStep()
                world.tell("\(owner.clientID) finds it set by \(agreed.lastStep) ms, and serves calls as of \(now)")
            }
            return true
        }
    }

    /// Whether the store's own clock explains the commit. If that clock is outside the commit's validity, the
    /// coordinator must read the clock again.
    private func isExplained(_ commit: Commit) -> Bool {
        let time = world.storesMachine + shared.correction
        clock.learn(time, between: boot, boot)
        return !clock.isDoubtful || commit.validity?.contains(time) ?? true
    }

    func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] {
        guard let cluster = world.cluster, !queries.isEmpty else {
            return try await run(isWrite: false) { () throws(StoreError) in store.read(queries) }
        }
        // The servers answer independently: each at another moment.
        var answers = [QueryAnswer?](repeating: nil, count: queries.count)
        for server in Set(queries.map { cluster.server(of: $0) }).sorted() {
            let places = queries.indices.filter { cluster.server(of: queries[$0]) == server }
            let found = try await run(isWrite: false, at: server) { () throws(StoreError) in
                store.read(places.map { queries[$0] })
            }
            for (place, answer) in zip(places, found) { answers[place] = answer }
        }
        return answers.map { $0! }
    }

    /// Writes the commits one after the other, as Redis executes a pipeline: a crash may leave a part of the commits
    /// done.
    func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) async throws(StoreError) -> Written {
        var outcomes: [CommitOutcome] = []
        for commit in commits {
            if case .call(let call) = commit.record, let broken = call.brokenInvariant {
                world.violated(
                    .inconsistentCall, call.callID, call.origin.device, "\(owner.clientID) writes a call: \(broken)")
            }
            outcomes.append(try world.plan.commitsInSteps ? await inSteps(commit) : await atOnce(commit))
        }
        if !notes.isEmpty {
            try await run { () throws(StoreError) in
                store.note(notes)
                for callID in Set(notes.map(\.callID)) { world.pushes?.wrote(callID) }
            }
        }
        return Written(outcomes: outcomes, answers: queries.isEmpty ? [] : try? await read(queries))
    }

    private func atOnce(_ commit: Commit) async throws(StoreError) -> CommitOutcome {
        try await run { () throws(StoreError) in
            defer { wrote(commit) }
            return isExplained(commit) ? store.commit([commit])[0] : .conflict
        }
    }

    private func wrote(_ commit: Commit) {
        if let callID = commit.id.callID { world.pushes?.wrote(callID) }
    }

    /// Writes a commit in steps, as in a store with records and claims on several machines.
    private func inSteps(_ commit: Commit) async throws(StoreError) -> CommitOutcome {
        guard try await takeClaims(of: commit) else { return .claimHeld }
        let outcome = try await run(at: world.cluster?.server(of: commit.id)) { () throws(StoreError) in
            defer { wrote(commit) }
            return isExplained(commit) ? store.write(commit) : .conflict
        }
        if case .committed = outcome, !commit.releases.isEmpty {
            // In a real store the claims may be released later, and no request waits for that. With faults, the
            // simulation draws the delay.
            world.at(world.now + random.between(0, world.hasFaults ? mix.lateRelease : 0)) { [store] in
                store.giveUpClaims(of: commit)
            }
        }
        return outcome
    }

    /// Takes the claims, and enters the call into users' lists. In a cluster each server does its part at another
    /// moment, or fails alone; the record is written when all servers have done their parts.
    private func takeClaims(of commit: Commit) async throws(StoreError) -> Bool {
        guard let cluster = world.cluster else {
            return try await run { () throws(StoreError) in store.takeClaims(of: commit) }
        }
        let claims = commit.claims + commit.expectedHolders.map(\.claim)
        var areTaken = true
        for server in Set(claims.map { cluster.server(of: $0) }).sorted() {
            let isTaken = try await run(at: server) { () throws(StoreError) in
                store.takeClaims(of: commit) { cluster.server(of: $0) == server }
            }
            areTaken = areTaken && isTaken
        }
        guard areTaken else { return false }
        for user in commit.newMembers {
            try await run(at: cluster.server(of: user)) { () throws(StoreError) in store.enter(commit, of: user) }
        }
        return true
    }

    func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss {
        try await run { () throws(StoreError) in store.bound(endpoint, bounds) }
    }

    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) {
        try await run { () throws(StoreError) in store.keep(endpoints) }
    }

    func endpoints() async throws(StoreError) -> [KeptEndpoint] {
        try await run(isWrite: false) { () throws(StoreError) in store.endpoints() }
    }

    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) async throws(StoreError) -> [RecordID] {
        try await run(isWrite: false) { () throws(StoreError) in
            store.due(before: moment, limit: limit, besides: besides)
        }
    }

    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        try await run(isWrite: false) { () throws(StoreError) in store.due(ids, before: moment) }
    }

    func history(of user: UserID, after place: HistoryPlace?, limit: Int) async throws(StoreError) -> [HistoryPlace] {
        try await run(isWrite: false) { () throws(StoreError) in store.history(of: user, after: place, limit: limit) }
    }

    func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile {
        try await run { () throws(StoreError) in store.update(user, update) }
    }

    func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool {
        try await run { () throws(StoreError) in store.set(block, isBlocked) }
    }

    func blockList(of user: UserID) async throws(StoreError) -> [UserID] {
        try await run { () throws(StoreError) in store.blockList(of: user) }
    }

    func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [OnlineOutcome] {
        var outcomes: [OnlineOutcome] = []
        for session in sessions {
            outcomes += try await run(at: world.cluster?.server(of: session.device.userID)) { () throws(StoreError) in
                defer { present([session.device]) }
                let outcome = store.cameOnline([session], policy: policy)
                tell(session, "\(outcome[0])")
                return outcome
            }
        }
        return outcomes
    }

    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool] {
        var ended: [Bool] = []
        for session in sessions {
            ended += try await run(at: world.cluster?.server(of: session.device.userID)) { () throws(StoreError) in
                defer { present([session.device]) }
                let hasEnded = store.wentOffline([session], policy: policy)
                tell(session, hasEnded[0] ? "offline" : "offline, and not current")
                return hasEnded
            }
        }
        return ended
    }

    func renew(_ devices: [DeviceAddress]) async throws(StoreError) {
        try await run { () throws(StoreError) in
            store.renew(devices)
            present(devices)
        }
    }

    func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings {
        try await run { () throws(StoreError) in
            let away = store.sightings.away
            let sightings = store.report(report)
            if sightings.away != away {
                world.tell("\(owner.clientID): brokers that are away: \(sightings.away.joined(separator: ", "))")
            }
            return sightings
        }
    }

    func readSightings() async throws(StoreError) {
        try await run(isWrite: false) { () throws(StoreError) in store.readSightings() }
    }

    func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage {
        try await run(isWrite: false) { () throws(StoreError) in store.devices(at: broker, after: place, limit: limit) }
    }

    private func tell(_ session: DeviceSession, _ state: String) {
        world.tell(
            "presence of \(session.device), session \(session.id) at \(session.broker ?? "the broker"): \(state)")
    }

    private func present(_ devices: [DeviceAddress]) {
        for user in Set(devices.map(\.userID)) { world.pushes?.truth.present(user, world.now) }
    }

    func erase(_ user: UserID) async throws(StoreError) { try await run { () throws(StoreError) in store.erase(user) } }

    func charge(_ charges: [StoredCharge]) async throws(StoreError) {
        try await run { () throws(StoreError) in store.charge(charges) }
    }

    func trace(_ traces: [CallTrace], life: Milliseconds) {}

    func timeline(of callID: CallID) -> Timeline { Timeline(entries: []) }

    func clean(limit: Int) async throws(StoreError) -> Int {
        try await run { () throws(StoreError) in store.clean(limit: limit) }
    }

    // MARK: The outbox

    func turnOff(_ endpoint: EndpointName, at url: String) async throws(StoreError) {
        try await run { () throws(StoreError) in store.turnOff(endpoint, at: url) }
    }

    func turnOn(_ endpoint: EndpointName) async throws(StoreError) -> Bool {
        try await run { () throws(StoreError) in store.turnOn(endpoint) }
    }

    func note(_ attempt: String, of endpoint: EndpointName, at url: String) async throws(StoreError) {
        try await run { () throws(StoreError) in store.note(attempt, of: endpoint, at: url) }
    }

    func keepLost(_ endpoints: [KeptEndpoint]) async throws(StoreError) {
        try await run { () throws(StoreError) in store.keepLost(endpoints) }
    }

    func forget(_ endpoint: EndpointName) async throws(StoreError) {
        try await run { () throws(StoreError) in store.forget(endpoint) }
    }

    func clear(_ endpoint: EndpointName) async throws(StoreError) -> Bool {
        try await run { () throws(StoreError) in store.clear(endpoint) }
    }

    func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) async throws(StoreError) -> [OutboxItem] {
        try await run { () throws(StoreError) in store.claim(endpoint, by: worker, limit: limit, near: near) }
    }

    func settle(_ settlements: [Settlement], by worker: WorkerID) async throws(StoreError) -> [Settled] {
        try await run { () throws(StoreError) in store.settle(settlements, by: worker) }
    }

    func renew(_ worker: WorkerID) async throws(StoreError) -> Bool {
        try await run { () throws(StoreError) in store.renew(worker) }
    }

    func recover() async throws(StoreError) -> Int {
        try await run { () throws(StoreError) in store.recover() }
    }

    func count(_ endpoint: EndpointName) async throws(StoreError) -> OutboxCount {
        try await run(isWrite: false) { () throws(StoreError) in store.count(endpoint) }
    }

    func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) async throws(StoreError) -> [DeadLetter] {
        try await run(isWrite: false) { () throws(StoreError) in
            store.deadLetters(endpoint, since: since, limit: limit)
        }
    }

    func replay(_ letters: [DeadLetter], of endpoint: EndpointName) async throws(StoreError) -> Int {
        try await run { () throws(StoreError) in store.replay(letters, of: endpoint) }
    }
}
