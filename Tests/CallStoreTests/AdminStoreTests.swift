import CallCore
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// The audit log and the disabled users at each store (`AdminStore`).
@Suite struct AdminStoreTests {
    private func entry(_ time: Milliseconds, _ id: String) -> AuditEntry {
        var entry = AuditEntry(time: time, id: id, actor: "olivia", act: .end)
        (entry.callID, entry.userID) = (CallID("c1"), UserID("alice"))
        (entry.device, entry.reason) = (DeviceID("phone"), "why \u{0} \"not\"")
        return entry
    }

    private func add(_ entries: [AuditEntry], to store: BlockingStore) throws {
        for entry in entries { try store.audit { store throws(StoreError) in try await store.add(entry) } }
    }

    private func page(_ store: BlockingStore, after place: String? = nil, limit: Int) throws -> AuditPage {
        try store.audit { store throws(StoreError) in try await store.audit(after: place, limit: limit) }
    }

    @Test(arguments: StoreKind.allCases)
    func entriesAreReadInPagesTheNewestFirst(_ kind: StoreKind) throws {
        let store = try kind.open().store
        #expect(try page(store, limit: 10) == AuditPage([], next: nil))
        let now = try store.now()
        let entries = (0..<7).map { entry(now + Int64($0) / 2, "e\($0)") }
        try add(entries, to: store)
        var found: [AuditEntry] = []
        var place: String?
        var pages = 0
        repeat {
            let page = try page(store, after: place, limit: 3)
            found += page.entries
            place = page.next
            pages += 1
            // Entries that are added meanwhile do not move the pages.
            try add([entry(now + 100 + Int64(pages), "new\(pages)")], to: store)
        } while place != nil
        #expect(pages == 3)
        #expect(Set(found.map(\.id)) == Set(entries.map(\.id)) && found.count == entries.count)
        #expect(found.map(\.time) == entries.map(\.time).reversed())
        #expect(found.first { $0.id == "e3" } == entries[3])
        #expect(try page(store, after: "nonsense", limit: 1).entries.map(\.id) == ["new3"])
    }

    @Test(arguments: StoreKind.allCases)
    func oldEntriesGo(_ kind: StoreKind) throws {
        let store = try kind.open().store
        let now = try store.now()
        try add([entry(now - AuditBounds.life - 1_000, "old"), entry(now, "new")], to: store)
        #expect(try page(store, limit: 10).entries.map(\.id) == ["new"])
    }

    @Test(arguments: StoreKind.allCases)
    func beyondTheBoundTheOldestEntriesGo(_ kind: StoreKind) throws {
        let store = try kind.open().store
        let now = try store.now()
        for number in 0..<12 {
            let entry = entry(now + Int64(number), "e\(number)")
            try store.audit { store throws(StoreError) in try await store.add(entry, keeping: 5) }
        }
        #expect(try page(store, limit: 20).entries.map(\.id) == ["e11", "e10", "e9", "e8", "e7"])
        // A page that began before newer entries displaced the older ones goes on with those that are left.
        let first = try page(store, limit: 2)
        let newer = entry(now + 12, "e12")
        try store.audit { store throws(StoreError) in try await store.add(newer, keeping: 5) }
        #expect(try page(store, after: first.next, limit: 20).entries.map(\.id) == ["e9", "e8"])
    }

    /// 100,000 entries (docs/bounds.md). The stores on disk keep the same bound by the same argument.
    @Test func theBoundOfTheAuditLogHolds() async throws {
        let store = MemoryCallStore { 1_790_000_000_000 }
        let now = store.now()
        for number in 0...AuditBounds.entries { try await store.add(entry(now, "e\(number)")) }
        #expect(AuditBounds.entries == 100_000)
        let newest = store.audit(after: nil, limit: .max / 2).entries
        #expect(newest.count == AuditBounds.entries && newest.last?.id == "e1")
    }

    @Test(arguments: StoreKind.allCases)
    func usersAreDisabledAndEnabled(_ kind: StoreKind) throws {
        let store = try kind.open().store
        func set(_ user: UserID, _ isDisabled: Bool) throws -> Bool {
            try store.audit { store throws(StoreError) in try await store.set(user, isDisabled: isDisabled) }
        }
        func disabled() throws -> Set<UserID> {
            try store.audit { store throws(StoreError) in try await store.adminSettings().disabledUsers }
        }
        let (alice, odd) = (UserID("alice")!, UserID("zoë/+#:}")!)
        #expect(try disabled() == [])
        #expect(try set(alice, false))
        #expect(try set(alice, true) && set(alice, true) && set(odd, true))
        #expect(try disabled() == [alice, odd])
        #expect(try set(alice, false))
        #expect(try disabled() == [odd])
    }

    @Test(arguments: StoreKind.allCases)
    func theLastOrderAboutLogsIsKept(_ kind: StoreKind) throws {
        let store = try kind.open().store
        func settings() throws -> AdminSettings {
            try store.audit { store throws(StoreError) in try await store.adminSettings() }
        }
        var watch = LogLevelWatch()
        #expect(try settings().logLevel == nil)
        #expect(try watch.newLevel(in: settings()) == nil)
        for (time, level) in [(1, "debug"), (2, "warning")] as [(Int64, String)] {
            let order = LogLevelOrder(time: time, level: level)
            try store.audit { store throws(StoreError) in try await store.set(order) }
            #expect(try settings().logLevel == order)
            #expect(try watch.newLevel(in: settings()) == level)
            #expect(try watch.newLevel(in: settings()) == nil)
        }
        var later = LogLevelWatch()
        #expect(try later.newLevel(in: settings()) == nil, "a process that starts now does not know the order")
    }

    @Test(arguments: StoreKind.allCases)
    func devicesThatAreOnlineAreListedInPages(_ kind: StoreKind) throws {
        let test = try kind.open()
        let devices = (0..<40).map { DeviceAddress(userID: UserID("u/\($0 % 30) }:")!, deviceID: DeviceID("d\($0)")!) }
        for (number, device) in devices.enumerated() { _ = try test.online(device, "s\(number)") }
        try test.offline(devices[7], "s7")
        for limit in [1, 7, 100] {
            var found: [DeviceAddress] = []
            var place: String?
            repeat {
                let page = try test.store.audit { store throws(StoreError) in
                    try await store.online(after: place, limit: limit)
                }
                found += page.devices.map(\.device)
                place = page.next
            } while place != nil
            #expect(found.sorted() == devices.filter { $0 != devices[7] }.sorted())
        }
        try test.pass(PresencePolicy().lease + 1_000)
        #expect(
            try test.store.audit { store throws(StoreError) in try await store.online(after: nil, limit: 100) }.devices
                == [])
    }

    @Test(arguments: StoreKind.allCases)
    func callsWithADeadlineAreListedInPages(_ kind: StoreKind) throws {
        let test = try kind.open()
        let calls = (0..<300).map { call("c\($0)") }
        let withDeadline = calls.enumerated().filter { $0.offset % 3 > 0 }.map(\.element.callID)
        _ = try test.store.commit(
            calls.map { call in
                let deadline: Milliseconds? = withDeadline.contains(call.callID) ? 5_000 : nil
                return Commit(
                    .call(call.callID), record: .call(call), expected: 0, deadline: deadline, expiresAt: nil)
            })
        for limit in [1, 7, 1_000] {
            var found: [CallID] = []
            var place: String?
            repeat {
                let page = try test.store.audit { store throws(StoreError) in
                    try await store.callsWithDeadline(after: place, limit: limit)
                }
                found += page.calls
                place = page.next
            } while place != nil
            #expect(found.sorted() == withDeadline.sorted())
        }
        let first = try test.store.audit { store throws(StoreError) in
            try await store.callsWithDeadline(after: "nonsense", limit: 1_000)
        }
        #expect(kind == .memory || !first.calls.isEmpty, "a place that no page has named")
    }

    @Test func theListIsBounded() {
        let users = (1..<DisabledUsers.most).map { UserID("u\($0)")! }
        let full = DisabledUsers(Set(users)).adding(UserID("last")!)
        #expect(full?.users.count == DisabledUsers.most)
        #expect(full?.adding(UserID("more")!) == nil)
        #expect(full?.adding(UserID("last")!) == full, "who is disabled already stays so")
        // Each of these bytes takes six bytes in JSON.
        let long = (0..<1_100).map { UserID("\($0)-" + String(repeating: "\u{1}", count: 59))! }
        #expect(DisabledUsers(Set(long)).adding(UserID("more")!) == nil)
    }

    @Test func aListIsReadAsItWasWritten() {
        let list = DisabledUsers([UserID("alice")!, UserID("zoë \"x\"")!])
        #expect(DisabledUsers(payload: list.payload) == list)
        #expect(DisabledUsers(payload: Array("{}".utf8)) == nil)
        #expect(DisabledUsers(payload: Array("nonsense".utf8)) == nil)
        #expect(DisabledUsers(payload: Array(#"{"users":["a",7,""]}"#.utf8)) == DisabledUsers([UserID("a")!]))
    }

    @Test func anEntryThatIsNoneIsPassedOver() {
        #expect(AuditEntry(Array("{}".utf8)) == nil)
        #expect(AuditEntry(Array(#"{"time":1,"id":"a","actor":"b","act":"dance"}"#.utf8)) == nil)
        let entry = entry(1_790_000_000_000, "e")
        #expect(AuditEntry(entry.encoded()) == entry)
        var replay = AuditEntry(time: 1, id: "r", actor: "olivia", act: .replay)
        (replay.endpoint, replay.webhookID, replay.since) = (EndpointName("rooms:main"), "c_2", 7)
        #expect(AuditEntry(replay.encoded()) == replay)
    }
}
