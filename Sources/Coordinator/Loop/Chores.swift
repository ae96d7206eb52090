import CallCore
import CallStore

/// The periodic work of a coordinator: checking the store, sweeping, cleaning, writing timelines and usage, and
/// reporting brokers. Each chore runs by itself, concurrently with other work.
final class Chores {
    /// The bounds, in milliseconds.
    private enum ChoreBounds {
        static let sweepInterval: Int64 = 500
        static let sweepGrace: Int64 = 500
        /// The intervals between checks of a shared store, normally and while the store fails.
        static let storeLookInterval: Int64 = 100
        static let failingLookInterval: Int64 = 50
        static let cleanInterval: Int64 = 10_000
        /// How long a timeline's entries wait to be written.
        static let traceInterval: Int64 = 200
        /// How long other coordinators do not know of new bytes kept because of a user.
        static let usageInterval: Int64 = 1_000
        /// How long a coordinator may not know of a new endpoint.
        static let endpointInterval: Int64 = 1_000
        /// The interval between two steps while an outbox is beyond its bounds: each step removes some 256 revisions,
        /// more than come meanwhile.
        static let boundInterval: Int64 = 25
        /// The interval between two reports of the brokers that were heard.
        static let reportInterval: Int64 = 1_000
        /// How long a coordinator may not know what an administrator has set: with the broker's part, less than five
        /// seconds.
        static let adminInterval: Int64 = 2_000
        /// The age of the counts of live calls and devices in `/metrics`: at most ten seconds, with a late answer.
        static let countInterval: Int64 = 5_000
        /// The number of counts after which entries that are out of date are looked for.
        static let countsPerTidying = 12
        /// The number of readings after which brokers are told the disabled users again.
        static let readingsPerList = 15
    }

    private enum Chore: Int, CaseIterable {
        case look, sweep, clean, writeTraces, writeUsage, readEndpoints, readAdminSettings, countLive, reportBrokers,
            callRoll
    }

    private static let all = Chore.allCases

    private let service: CallService
    private let isRouting: Bool
    private let executor: WorkExecutor
    private let random: (ClosedRange<Int64>) -> Int64
    /// The time when each chore is due, by its number; nil while the chore runs.
    private var due = [Int64?](repeating: 0, count: all.count)
    private var now: Int64 = 0
    /// Whether a sweep has found all due records. A sweep takes deadlines that are late by `sweepGrace`. The first
    /// sweeps take every due deadline, so that deadlines that came while no coordinator ran are served at once.
    private var hasSwept = false
    /// The number of commits before the records of the last sweep are served, if the store may have more due records.
    private var commitsBefore: Int?
    /// Whether the last timelines and usage were written.
    private(set) var hasFlushed = false
    /// The start of the last check that the store answered.
    private(set) var lastAnswer: Int64
    /// Returns the bound on records that a sweep may look for now; `found` is called with the records that a sweep has
    /// found.
    var sweepLimit: () -> Int = { 0 }
    var found: ([RecordID]) -> Void = { _ in }
    /// Returns the brokers that were heard since a time, and how many milliseconds ago; nil while the coordinator
    /// listens nowhere. `publish` is called with the messages to devices.
    var heard: (_ since: Int64) -> [(broker: BrokerIndex, age: Int64)]? = { _ in nil }
    var publish: ([OutboundMessage]) -> Void = { _ in }
    var canPublish: (BrokerIndex) -> Bool = { _ in true }
    /// The number of readings of what administrators have set.
    private var adminReadings = 0
    /// The number of readings of what is live.
    private var liveReadings = 0
    /// Called when brokers are to be told the disabled users.
    var disabledUsersChanged: () -> Void = {}
    /// The time of the last report of brokers that was taken.
    private var reported: Int64

    init(
        _ service: CallService, _ executor: WorkExecutor, now: Int64, _ random: @escaping (ClosedRange<Int64>) -> Int64
    ) {
        self.service = service
        isRouting = service.settings.isRouting
        self.executor = executor
        self.random = random
        lastAnswer = now
        reported = now
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
            if now >= at || chore == .writeTraces && service.storeChores.hasManyTraces { begin(chore) }
        }
    }

    /// Whether the chore has work. Timelines and usage are written only when there are some. Deadlines are served while
    /// the coordinator listens at a broker and the store answers.
    private func isDue(_ chore: Chore, _ isServingDeadlines: Bool) -> Bool {
        switch chore {
        case .look, .readEndpoints, .readAdminSettings, .countLive: true
        case .sweep, .clean: isServingDeadlines
        case .writeTraces: service.storeChores.hasTraces
        case .writeUsage: service.storeChores.hasUsage
        case .reportBrokers: isRouting && isServingDeadlines
        case .callRoll: isServingDeadlines && service.storeChores.hasRollCall
        }
    }

    /// Whether no chore is running, except the check of the store.
    var areDone: Bool { Self.all.allSatisfy { $0 == .look || due[$0.rawValue] != nil } }

    /// Writes the collected timelines and usage for the last time.
    func flush() {
        begin(.writeTraces)
        begin(.writeUsage)
        hasFlushed = true
    }

    /// Makes the next sweep due at once when the records of the last sweep are served and the store may have more. The
    /// next sweep needs a commit in between, since deadlines that cannot be served must not be tried without a pause.
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

    /// Runs the chore. Returns the milliseconds until the chore is due again.
    private func perform(_ chore: Chore) async -> Int64 {
        switch chore {
        case .look:
            let began = now
            await service.storeChores.lookAtStore()
            guard service.storeFailure == nil else { return ChoreBounds.failingLookInterval }
            lastAnswer = began
            return ChoreBounds.storeLookInterval
        case .sweep:
            await sweep()
            return ChoreBounds.sweepInterval + random(0...ChoreBounds.sweepInterval / 4)
        case .clean: return await service.storeChores.clean() ? ChoreBounds.sweepInterval : ChoreBounds.cleanInterval
        case .writeTraces:
            await service.storeChores.writeTraces()
            return ChoreBounds.traceInterval
        case .writeUsage:
            await service.storeChores.writeUsage()
            return ChoreBounds.usageInterval
        case .readEndpoints:
            return await service.storeChores.readEndpoints() ? ChoreBounds.boundInterval : ChoreBounds.endpointInterval
        case .readAdminSettings:
            let (isChanged, messages) = await service.storeChores.readAdminSettings()
            // Now and then without a change: a broker may have connected while the list could not be read.
            adminReadings += 1
            if isChanged || adminReadings % ChoreBounds.readingsPerList == 0 { disabledUsersChanged() }
            publish(messages)
            return ChoreBounds.adminInterval
        case .countLive:
            liveReadings += 1
            await service.storeChores.countLive(isTidying: liveReadings % ChoreBounds.countsPerTidying == 0)
            return ChoreBounds.countInterval
        case .reportBrokers:
            let began = now
            if let heard = heard(reported), await service.storeChores.reportBrokers(heard) { reported = began }
            return ChoreBounds.reportInterval
        case .callRoll:
            let (messages, pause) = await service.storeChores.callRoll(canPublish)
            publish(messages)
            return pause
        }
    }

    private func sweep() async {
        let limit = sweepLimit()
        guard limit > 0, let ids = await service.overdue(grace: hasSwept ? ChoreBounds.sweepGrace : 0, limit: limit)
        else {
            return
        }
        commitsBefore = ids.count == limit ? service.counters[.commits] : nil
        if ids.count < limit { hasSwept = true }
        found(ids)
    }
}
