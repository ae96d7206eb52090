import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Synchronization
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// Store time goes on like a clock that cannot be set (docs/decisions/0014).
@Suite struct StoreClockTests {
    private let began: Milliseconds = 1_790_000_000_000

    // MARK: The time on which the coordinators agree

    @Test func aFirstLookTakesTheStoresTimeAsItIs() {
        var shared = SharedClock()
        #expect(shared.look(raw: began, expected: nil, wall: began) == began)
        #expect(shared.look(raw: began + 500, expected: began + 503, wall: began + 503) == began + 500)
        #expect(shared.steps == 0)
    }

    @Test(arguments: [70_000, -70_000, 3_600_000, -3_600_000] as [Milliseconds])
    func aClockThatIsSetDoesNotChangeTheTime(step: Milliseconds) {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began)
        let now = shared.look(raw: began + 500 + step, expected: began + 500, wall: began + 500)
        #expect(abs(now - (began + 500)) <= 5)
        #expect(shared.steps == 1)
        #expect(shared.lastStep == step)
        // Every other coordinator finds the time mended, also a coordinator that has just started.
        #expect(
            abs(shared.look(raw: began + 600 + step, expected: began + 600, wall: began + 600) - (began + 600)) <= 5)
        #expect(abs(shared.look(raw: began + 700 + step, expected: nil, wall: began + 700) - (began + 700)) <= 5)
        #expect(shared.steps == 1)
    }

    /// The coordinator's machine was paused, as virtual machines are: the coordinator's clock is behind, and the
    /// store's clock is right.
    @Test func whoStoodStillFollowsTheOthers() {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began)
        _ = shared.look(raw: began + 70_000, expected: began + 70_000, wall: began + 70_000)
        #expect(shared.look(raw: began + 70_100, expected: began + 100, wall: began + 100) == began + 70_100)
        #expect(shared.steps == 0)
    }

    @Test func timeDoesNotGoBackWhileNobodyLooks() {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began)
        #expect(shared.look(raw: began - 50_000, expected: nil, wall: began - 50_000) == began)
        #expect(shared.steps == 1)
    }

    @Test(arguments: [70_000, -70_000] as [Milliseconds])
    func aClockThatIsSetWhileNobodyIsThereEndsNothingEarly(step: Milliseconds) {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began + 30)
        let now = shared.look(raw: began + 3_000 + step, expected: nil, wall: began + 3_030)
        #expect((began...began + 3_010).contains(now))
        // The same holds if the wall clock of the asking coordinator was set.
        var other = SharedClock()
        _ = other.look(raw: began, expected: nil, wall: began)
        #expect(
            (began...began + 3_010).contains(other.look(raw: began + 3_000, expected: nil, wall: began + 3_000 + step)))
    }

    /// The time on which the coordinators agreed was lost with the store's data.
    @Test func aStoreThatWasEmptiedDoesNotBringAStepBack() {
        var shared = SharedClock()
        let now = shared.look(raw: began + 70_000, expected: began, wall: began)
        #expect(abs(now - began) <= 5)
    }

    @Test func aClockThatWasSetRightIsFollowedSlowly() {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began)
        var time = began
        for turn in 1...4_100 {
            let elapsed = Milliseconds(turn) * 500
            let now = shared.look(raw: began + elapsed + 2_000, expected: time + 500, wall: time + 500)
            #expect((498...503).contains(now - time))
            time = now
        }
        // Within half an hour of real time, the clock has made up for 2 s.
        #expect(shared.correction == 0)
        #expect(time == began + 2_050_000 + 2_000)
    }

    @Test func whatTheyAgreeOnIsKeptAsText() {
        var shared = SharedClock()
        _ = shared.look(raw: began, expected: nil, wall: began)
        _ = shared.look(raw: began + 90_000, expected: began + 10, wall: began + 10)
        #expect(SharedClock(shared.text) == shared)
    }

    @Test(arguments: [
        "", "1:2:3:4", "1:2:3:4:5:6", "a:1:1:1:1", "1:-1:1:1:1", "\(Int64.min):1:1:1:1", "1:1:\(Int64.min):1:1",
        "1:1:1:-1:1",
        "1:\(Int64.max):1:1:1",
    ])
    func whatNobodyWroteIsNoClock(text: String) { #expect(SharedClock(text) == nil) }

    // MARK: A process's own clock

    @Test func theTimeIsTheBootClocksAndAnOffset() {
        var clock = StoreClock()
        #expect(clock.now(boot: 5) == nil)
        clock.adopt(began, between: 100, 110)
        #expect(clock.now(boot: 105) == began)
        clock.learn(began + 1_000, between: 1_100, 1_110)
        #expect(clock.now(boot: 1_105) == began + 1_000)
    }

    @Test func aTimeThatDriftDoesNotExplainIsDoubtedAndNotLearned() {
        var clock = StoreClock()
        clock.adopt(began, between: 100, 100)
        clock.learn(began + 70_000, between: 200, 210)
        #expect(clock.isDoubtful)
        #expect(clock.now(boot: 200) == began + 100)
        clock.adopt(began + 110, between: 210, 210)
        #expect(!clock.isDoubtful)
    }

    @Test func whoIsStoppedWhileItAsksTakesNoPauseForAStep() {
        var clock = StoreClock()
        clock.adopt(began, between: 100, 100)
        // The coordinator asks at 200 and has the answer at 20,200: no time of the store's clock in between is news.
        for moment in [0, 7_000, 20_000] as [Milliseconds] {
            #expect(clock.now(nearest: began + 100 + moment, between: 200, 20_200) == began + 100 + moment)
        }
        #expect(clock.now(nearest: began + 90_000, between: 200, 20_200) == began + 20_100)
        #expect(clock.now(nearest: began - 90_000, between: 200, 20_200) == began + 100)
    }

    // MARK: SQLite

    /// The machine of a test.
    private final class Machine: Sendable {
        private let state = Mutex(
            (boot: Milliseconds(1_000), wall: Milliseconds(1_790_000_000_000), pause: Milliseconds(0)))
        /// The process is stopped after its next look at one of the clocks.
        func stop(for pause: Milliseconds) { state.withLock { $0.pause = pause } }
        func pass(_ duration: Milliseconds) {
            state.withLock {
                $0.boot += duration
                $0.wall += duration
            }
        }
        func set(wallBy step: Milliseconds) { state.withLock { $0.wall += step } }
        func restart(after pause: Milliseconds) {
            state.withLock {
                $0.boot = 500
                $0.wall += pause
            }
        }
        private func look(_ clock: KeyPath<(boot: Milliseconds, wall: Milliseconds, pause: Milliseconds), Milliseconds>)
            -> Milliseconds
        {
            state.withLock { state in
                defer {
                    state.boot += state.pause
                    state.wall += state.pause
                    state.pause = 0
                }
                return state[keyPath: clock]
            }
        }
        func clock(_ bootID: String) -> MachineClock {
            MachineClock(
                boot: { [self] in look(\.boot) }, wall: { [self] in look(\.wall) }, bootID: bootID)
        }
    }

    @Test(arguments: [70_000, -70_000] as [Milliseconds])
    func sqliteGoesOnWhenTheWallClockIsSet(step: Milliseconds) throws {
        let (file, machine) = (TemporaryFile(), Machine())
        let store = try SQLiteCallStore(path: file.path, machine: machine.clock("first"))
        let before = store.now()
        machine.pass(10_000)
        machine.set(wallBy: step)
        #expect(store.now() == before + 10_000)
        _ = try store.clean(limit: 1)
        #expect(abs(store.now() - (before + 10_000)) <= 50)
        #expect(store.clockSteps.count == 1)
        // A process that comes later has the same time.
        let other = try SQLiteCallStore(path: file.path, machine: machine.clock("first"))
        #expect(abs(other.now() - store.now()) <= 1)
    }

    @Test func aProcessThatIsStoppedWhileItLooksAtItsClocksIsRight() throws {
        let (file, machine) = (TemporaryFile(), Machine())
        let store = try SQLiteCallStore(path: file.path, machine: machine.clock("first"))
        let before = store.now()
        machine.stop(for: 10_000)
        _ = try store.clean(limit: 1)
        #expect(store.now() == before + 10_000)
        #expect(store.clockSteps.count == 0)
    }

    @Test func sqliteIsRightAfterTheMachineWasStartedAgain() throws {
        let (file, machine) = (TemporaryFile(), Machine())
        let before = try SQLiteCallStore(path: file.path, machine: machine.clock("first")).now()
        machine.restart(after: 40_000)
        #expect(try SQLiteCallStore(path: file.path, machine: machine.clock("second")).now() == before + 40_000)
        // The clock of the third start begins in the past: store time does not go back.
        machine.restart(after: -500_000)
        #expect(try SQLiteCallStore(path: file.path, machine: machine.clock("third")).now() == before + 40_000)
    }

    // MARK: Redis

    /// The process is stopped for ten seconds between the question and the answer, like a process after SIGSTOP or on a
    /// paused machine.
    @Test func whoIsStoppedWhileItAsksRedisGoesByTheNextAnswer() throws {
        let server = try RedisServer.shared.get()
        let pause = Mutex(Milliseconds(0))
        let machine = MachineClock(
            boot: {
                pause.withLock { pause in
                    defer { pause = 0 }
                    return MachineClock.system.boot() - pause
                }
            }, wall: MachineClock.system.wall, bootID: "test")
        let session = RedisSession(
            server.address, waitReplicas: 0, clockKey: Array("test-\(UUID().uuidString):clock".utf8),
            machine: machine)
        let executor = WorkExecutor()
        func now() throws -> Milliseconds {
            try executor.complete(session) { () async throws(StoreError) in try await session.now() }
        }
        let offset = try now() - MachineClock.system.boot()
        for _ in 0..<3 {
            pause.withLock { $0 = 10_000 }
            _ = try executor.complete(session) { () async throws(StoreError) in try await session.lookAtClock() }
            #expect(abs(try now() - MachineClock.system.boot() - offset) < 200)
        }
    }

    /// An operator may change the settings of Redis at any time.
    @Test func theSettingsOfRedisAreReadAgainAfterAMinute() throws {
        let server = try RedisServer()
        let shift = Mutex(Milliseconds(0))
        let machine = MachineClock(
            boot: { MachineClock.system.boot() + shift.withLock(\.self) }, wall: MachineClock.system.wall,
            bootID: "test")
        let session = RedisSession(
            server.address, waitReplicas: 0, clockKey: Array("settings:clock".utf8), machine: machine)
        let executor = WorkExecutor()
        func look() throws {
            _ = try executor.complete(session) { () async throws(StoreError) in try await session.lookAtClock() }
        }
        try look()
        #expect(session.hazards == [.keepsNothing])
        var change = try session.pipeline()
        for (name, value) in [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")] {
            change.command("CONFIG", 3) {
                $0.add("SET")
                $0.add(name)
                $0.add(value)
            }
        }
        _ = try executor.complete(session) { [change] () async throws(StoreError) in try await session.run(change) }
        try look()
        try look()
        #expect(session.hazards == [.keepsNothing])
        shift.withLock { $0 = 60_001 }
        // The replies to the question of the first look come before the replies to the question of the second look.
        try look()
        try look()
        #expect(session.hazards == [.evicts(policy: "allkeys-lru"), .keepsNothing])
    }

    /// The store expects another time than the servers of a cluster have: all that carries the time is refused.
    @Test(arguments: [Milliseconds(-700), 700])
    func serversOfAClusterRefuseAnotherTimeThanTheirs(difference: Milliseconds) throws {
        let shift = Mutex(Milliseconds(0))
        let machine = MachineClock(
            boot: { MachineClock.system.boot() + shift.withLock(\.self) }, wall: MachineClock.system.wall,
            bootID: "test")
        let store = BlockingStore(
            RedisCallStore(
                address: try RedisClusterServers.shared.get().address, prefix: "test-\(UUID().uuidString)",
                machine: machine))
        let session = DeviceSession(alicePhone, id: "s")
        let policy = PresencePolicy()
        let commit = Commit(.call(CallID("a")!), record: .void, expected: 0, deadline: nil, expiresAt: nil)
        let registration = PushRegistration(
            .init(alicePhone, .standard, .fcm), target: .token("t"), digest: "d", since: try store.now())
        let steps: [() throws -> Void] = [
            { _ = try store.cameOnline([session], policy: policy) },
            { try store.renew([alicePhone]) },
            { _ = try store.wentOffline([session], policy: policy) },
            { _ = try store.commit([commit]) },
            { _ = try BlockingPushes(store).register(registration) },
            { try BlockingPushes(store).end(registration) },
            { _ = try BlockingPushes(store).unregister(alicePhone, nil, nil) },
        ]
        shift.withLock { $0 = difference }
        for step in steps {
            let error = #expect(throws: StoreError.self) { try step() }
            #expect(error?.description.contains("the clock of a server differs by") ?? false, "\(error as Any)")
        }
        shift.withLock { $0 = 0 }
        for step in steps { try step() }
    }
}
