@testable import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// Every store that exists. The conformance tests run against each store.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    case memory, sqlite, redis, redisCluster

    var testDescription: String { rawValue }

    var isRedis: Bool { self == .redis || self == .redisCluster }

    /// The address of the tests' Redis or Redis Cluster.
    func redisAddress() throws -> RedisAddress {
        self == .redisCluster ? try RedisClusterServers.shared.get().address : try RedisServer.shared.get().address
    }

    /// The servers of the tests' Redis or Redis Cluster.
    private func redisServers() throws -> [RedisServer] {
        self == .redisCluster ? try RedisClusterServers.shared.get().servers : [try RedisServer.shared.get()]
    }

    func open(historyPerUser: Int = 200) throws -> StoreUnderTest {
        switch self {
        case .memory:
            let clock = ManualClock()
            let store = MemoryCallStore(historyPerUser: historyPerUser) { clock.now }
            return StoreUnderTest(store) { clock.now += $0 }
        case .sqlite:
            let file = TemporaryFile()
            let store = try SQLiteCallStore(path: file.path, historyPerUser: historyPerUser)
            return StoreUnderTest(store) { try file.shiftTimes(by: $0) }
        case .redis, .redisCluster:
            let servers = try redisServers()
            let prefix = "test-\(UUID().uuidString)"
            let store = try RedisCallStore(address: redisAddress(), prefix: prefix, historyPerUser: historyPerUser)
            return StoreUnderTest(store) { duration in
                for server in servers { try server.shiftTimes(by: duration, prefix: prefix) }
            }
        }
    }
}

/// A store, and a way to let the store's time pass without waiting.
struct StoreUnderTest {
    let store: BlockingStore
    private let letPass: (Milliseconds) throws -> Void

    init(_ store: any CallStore, letPass: @escaping (Milliseconds) throws -> Void) {
        self.store = BlockingStore(store)
        self.letPass = letPass
    }

    func pass(_ duration: Milliseconds) throws { try letPass(duration) }

    // MARK: Commits

    /// Writes `call` over the version that was loaded. Returns the outcome of this commit.
    @discardableResult
    func write(
        _ call: Call, over expected: Int64 = 0, deadline: Milliseconds? = nil, expiresAt: Milliseconds? = nil,
        _ configure: (inout Commit) -> Void = { _ in }
    ) throws -> CommitOutcome {
        var commit = Commit(
            .call(call.callID), record: .call(call), expected: expected, deadline: deadline,
            expiresAt: expiresAt ?? call.endedAt.map { _ in .max })
        // The commit is like a commit of a coordinator, which knows the former call.
        var before: Call?
        if case .call(let known)? = try store.load([call.callID])[0]?.record { before = known }
        commit.newMembers = call.participants.filter { before?.member($0) == nil }
        commit.formerMembers = before?.participants.filter { call.member($0) == nil } ?? []
        commit.hasJustEnded = !call.isLive && before?.isLive ?? true
        configure(&commit)
        return try store.commit([commit])[0]
    }

    func load(_ id: String) throws -> StoredRecord? { try store.load([CallID(id)!])[0] }

    func holder(_ claim: Claim) throws -> String? { try store.holders(of: [claim])[0]?.callID.string }

    func due(before moment: Milliseconds, limit: Int = 100) throws -> [String] {
        try store.due(before: moment, limit: limit).map(\.string)
    }

    func calls(_ user: UserID, endedAfter moment: Milliseconds = 0, limit: Int = 100) throws -> [String] {
        try store.calls(CallList(of: user, endedAfter: moment, limit: limit)).map(\.string)
    }

    func history(_ user: UserID) throws -> [String] {
        try store.history(of: user, after: nil, limit: 100).map(\.callID.string)
    }

    // MARK: Presence

    func online(_ device: DeviceAddress, _ session: String, _ policy: PresencePolicy = .init()) throws -> OnlineOutcome
    {
        try store.cameOnline([DeviceSession(device, id: session)], policy: policy)[0]
    }

    @discardableResult
    func offline(_ device: DeviceAddress, _ session: String, _ policy: PresencePolicy = .init()) throws -> Bool {
        try store.wentOffline([DeviceSession(device, id: session)], policy: policy)[0]
    }

    func presence(_ device: DeviceAddress) throws -> DevicePresence? {
        try store.devices(of: [device.userID])[0].first { $0.device == device }
    }

    func isReachable(_ device: DeviceAddress, _ policy: PresencePolicy = .init()) throws -> Bool {
        try presence(device)?.isReachable(at: store.now(), lease: policy.lease) ?? false
    }
}

final class ManualClock {
    var now: Milliseconds = 1_790_000_000_000
}

/// A database file of its own, removed with its owner.
final class TemporaryFile {
    let path: String

    init() {
        path = FileManager.default.temporaryDirectory.appending(path: "bellwire-\(UUID().uuidString).db").path()
    }

    deinit {
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
    }

    /// Shifts all times of the store back by `duration`, as if this time had passed.
    func shiftTimes(by duration: Milliseconds) throws {
        let database = try SQLiteDatabase(path: path)
        for (table, column) in [
            ("presence", "seen"), ("presence", "since"), ("over_sessions", "until"), ("calls", "expires_at"),
            ("calls", "deadline"), ("outbox_lines", "due"), ("outbox_workers", "until"), ("outbox_dead", "since"),
            ("registrations", "since"), ("push_queue", "due"), ("push_workers", "until"), ("push_reservations", "at"),
        ] {
            try database.execute("UPDATE \(table) SET \(column)=\(column)-\(duration)")
        }
    }
}

/// The clock of a store under test is this machine's clock; the clock of the rule stands still by itself.
struct Stopwatch {
    private var last = ContinuousClock.now

    /// Whole milliseconds since the last time.
    mutating func lap() -> Milliseconds {
        let passed = Milliseconds((ContinuousClock.now - last) / .milliseconds(1))
        last += .milliseconds(passed)
        return passed
    }
}

// MARK: Records for the tests

let alice = UserID("alice")!
let bob = UserID("bob")!
let carol = UserID("carol")!
let alicePhone = DeviceAddress(userID: alice, deviceID: DeviceID("phone")!)
let aliceWeb = DeviceAddress(userID: alice, deviceID: DeviceID("web")!)
let bobPhone = DeviceAddress(userID: bob, deviceID: DeviceID("phone")!)

/// A call of Alice's, with as many fields as the stores look at.
func call(
    _ id: String, _ members: [UserID] = [alice, bob], createdAt: Milliseconds = 1000, endedAt: Milliseconds? = nil,
    media: String? = nil
) -> Call {
    var call = Call(
        callID: CallID(id)!, mode: .advanced, media: media, inviter: members[0], createdAt: createdAt, timeout: 60,
        extendedData: nil, joinPolicy: .invited, autoEnd: true, notReceivedAfter: nil,
        origin: RequestKey(
            device: DeviceAddress(userID: members[0], deviceID: DeviceID("phone")!), requestID: RequestID("r1")!))
    call.revision = 1
    call.members = members.map { Member(userID: $0, state: .inviting, updatedAt: createdAt) }
    call.endedAt = endedAt
    if endedAt != nil {
        call.state = .ended
        call.endReason = .answered
    }
    return call
}
