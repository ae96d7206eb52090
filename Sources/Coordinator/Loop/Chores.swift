import CallCore
import CallStore

/// What is done now and then, each by itself while other work goes on: looking at the store, sweeping, cleaning, writing what was noted.
final class Chores {
    /// In milliseconds.
    private enum Bounds {
        static let sweepInterval: Int64 = 500
        static let sweepGrace: Int64 = 500
        /// How often a shared store is looked at, and how often while it fails.
        static let storeLookInterval: Int64 = 100
        static let failingLookInterval: Int64 = 50
        static let cleanInterval: Int64 = 10_000
        /// How long a timeline's entries wait to be written.
        static let traceInterval: Int64 = 200
        /// How long other coordinators do not know what is kept because of a user.
        static let usageInterval: Int64 = 1_000
        /// How long a coordinator may not know of an endpoint that is new.
        static let endpointInterval: Int64 = 1_000
        /// Between two steps while more is kept for an endpoint than may be: some 256 revisions each, more than come meanwhile.
        static let boundInterval: Int64 = 25
    }

    private enum Chore: Int, CaseIterable {
        case look, sweep, clean, writeTraces, writeUsage, readEndpoints
    }

    private static let all = Chore.allCases

    private let service: CallService
    private let executor: WorkExecutor
    private let random: (ClosedRange<Int64>) -> Int64
    /// When each is due, by its number; nil while it is being done.
    private var due = [Int64?](repeating: 0, count: all.count)
    private var now: Int64 = 0
    /// The first sweep has no grace: what came due while nobody was there fires at once.
    private var hasSwept = false
    /// How much was committed before what the last sweep has found, if there may be more.
    private var commitsBefore: Int?
    /// What was noted was written for the last time.
    private(set) var hasFlushed = false
    /// When the last look at the store began that was answered.
    private(set) var lastAnswer: Int64
    /// How many deadlines a sweep may find now, and what is to be done with them.
    var sweepLimit: () -> Int = { 0 }
    var found: ([RecordID]) -> Void = { _ in }

    init(
        _ service: CallService, _ executor: WorkExecutor, now: Int64, _ random: @escaping (ClosedRange<Int64>) -> Int64
    ) {
        self.service = service
        self.executor = executor
        self.random = random
        lastAnswer = now
        if !service.store.isShared { due[Chore.look.rawValue] = nil }
    }

    func nextTick(isServingDeadlines: Bool) -> Int64 {
        var next = Int64.max
        for chore in Self.all where isDue(chore, isServingDeadlines) {
            if let at = due[chore.rawValue] { next = min(next, at) }
        }
        return next
    }

    func begin(_ now: Int64, isServingDeadlines: Bool) {
        self.now = now
        for chore in Self.all where isDue(chore, isServingDeadlines) {
            guard let at = due[chore.rawValue] else { continue }
            if now >= at || chore == .writeTraces && service.chores.hasManyTraces { begin(chore) }
        }
    }

    /// What was noted is written when there is something.
    private func isDue(_ chore: Chore, _ isServingDeadlines: Bool) -> Bool {
        switch chore {
        case .look, .readEndpoints: true
        case .sweep, .clean: isServingDeadlines
        case .writeTraces: service.chores.hasTraces
        case .writeUsage: service.chores.hasUsage
        }
    }

    /// Those that are under way, but for the look at the store.
    var areDone: Bool { Self.all.allSatisfy { $0 == .look || due[$0.rawValue] != nil } }

    /// Writes what was noted, for the last time.
    func flush() {
        begin(.writeTraces)
        begin(.writeUsage)
        hasFlushed = true
    }

    /// What the sweep had found is served: the next one comes at once, if there may be more. Only after progress, since deadlines that cannot
    /// be served must not be tried without a pause.
    func servedWhatWasFound() {
        guard let commits = commitsBefore, service.counters[.commits] > commits, due[Chore.sweep.rawValue] != nil
        else { return }
        commitsBefore = nil
        due[Chore.sweep.rawValue] = now
    }

    private func begin(_ chore: Chore) {
        due[chore.rawValue] = nil
        executor.start { [self] in
            let pause = await perform(chore)
            due[chore.rawValue] = now + pause
        }
    }

    /// Returns after how long it is due again.
    private func perform(_ chore: Chore) async -> Int64 {
        switch chore {
        case .look:
            let began = now
            await service.chores.lookAtStore()
            guard service.storeFailure == nil else { return Bounds.failingLookInterval }
            lastAnswer = began
            return Bounds.storeLookInterval
        case .sweep:
            await sweep()
            return Bounds.sweepInterval + random(0...Bounds.sweepInterval / 4)
        case .clean: return await service.chores.clean() ? Bounds.sweepInterval : Bounds.cleanInterval
        case .writeTraces:
            await service.chores.writeTraces()
            return Bounds.traceInterval
        case .writeUsage:
            await service.chores.writeUsage()
            return Bounds.usageInterval
        case .readEndpoints:
            return await service.chores.readEndpoints() ? Bounds.boundInterval : Bounds.endpointInterval
        }
    }

    private func sweep() async {
        let limit = sweepLimit()
        guard limit > 0, let ids = await service.overdue(grace: hasSwept ? Bounds.sweepGrace : 0, limit: limit) else {
            return
        }
        commitsBefore = ids.count == limit ? service.counters[.commits] : nil
        if ids.count < limit { hasSwept = true }
        found(ids)
    }
}
