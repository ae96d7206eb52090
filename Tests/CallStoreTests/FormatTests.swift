@testable import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// Tests/StoreFormats has a file for each format, with the records that stores write: a change of these records fails
/// here, and so tells that the format needs another number (docs/decisions/0028).
@Suite struct FormatTests {
    private let file = TemporaryFile()

    @Test func whatStandsInAnSQLiteFileIsItsFormat() throws {
        let machine = MachineClock(boot: { 1_000 }, wall: { Self.now }, bootID: "boot")
        let stamp = DeploymentStamp(topicRoot: "root")
        let store = try SQLiteCallStore(path: file.path, stamp: stamp, machine: machine)
        try fill(StoreUnderTest(store) { _ in })
        try expect(try contents(ofFile: store.database), in: "sqlite-\(SQLiteSchema.format.number)", of: "SQLiteSchema")
    }

    @Test func whatStandsInARedisIsItsFormat() throws {
        let server = try RedisServer()
        let store = RedisCallStore(address: server.address, stamp: DeploymentStamp(topicRoot: "root"))
        let test = StoreUnderTest(store) { _ in }
        try fill(test)
        // Writes without an answer have arrived when a later command was answered.
        try test.store.lookAtClock()
        try expect(try contents(of: server), in: "redis-\(RedisFormat.format.number)", of: "RedisFormat")
    }

    private func expect(_ lines: [String], in name: String, of owner: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let known = try? String(contentsOf: root.appending(path: "StoreFormats/\(name).txt"), encoding: .utf8)
        let found = lines.joined(separator: "\n") + "\n"
        guard known != found else { return }
        let path = FileManager.default.temporaryDirectory.appending(path: "bellwire-\(name).txt").path()
        try found.write(toFile: path, atomically: true, encoding: .utf8)
        let before = known?.split(separator: "\n").map(String.init) ?? []
        Issue.record(
            """
            The format of \(owner) has changed. Give \(owner).format the next number, and keep \(path) as the file of that number in \
            Tests/StoreFormats. The number stays where older builds pass the additions over (docs/decisions/0028).
            No more: \(before.filter { !lines.contains($0) }.joined(separator: "\n"))
            New: \(lines.filter { !before.contains($0) }.joined(separator: "\n"))
            """)
    }

    // MARK: A store with all kinds of records

    private static let now: Milliseconds = 1_790_000_000_000

    /// A call with every field, also fields that are seldom written.
    private static let fullCall = #"""
        {"rev":9,"mode":"advanced","state":"active","media":"video","inviter":"alice","created":1790000000001,"accepted":1790000000002,
        "ended":1790000000003,"endReason":"hangup","endedBy":"alice","timeout":60,"data":"call","join":"anyone","autoEnd":false,
        "notReceivedAfter":3000,"updated":1790000000004,"actor":"bob","origin":{"user":"alice","device":"phone","id":"r1","digest":7},
        "callerLostAt":1790000000005,"heartbeatDue":1790000000006,"emptySince":1790000000007,"deliveryDue":1790000000008,
        "deliveryServed":1790000000009,"members":[{"user":"alice","state":"accepted","updated":1790000000004,"invitedRev":0,
        "changedRev":1,"handledRev":0},{"user":"bob","name":"Bob","avatar":"https://x/bob","state":"accepted","device":"phone","by":"alice",
        "expires":1790000060001,"updated":1790000000004,"reason":"why","data":"member","invitedRev":1,"changedRev":2,"handledRev":3,
        "byCheck":true,"notReceivedAt":1790000003001,"responded":true,"push":true,"invitedAt":1790000000001},{"user":"carol",
        "state":"inviting","updated":1790000000004,"invitedRev":4,"changedRev":5,"handledRev":0,"withheld":true}],
        "outcomes":[{"user":"bob","device":"phone","id":"r2","type":"call.add","digest":8,"offline":["carol"],
        "errors":[{"user":"dave","code":"userNotFound"}],"merged":true}],"pushes":[{"rev":1,"title":"Title","content":"Content",
        "payload":"{}","missed":{"title":"Missed","content":"a call"}}]}
        """#.replacing("\n", with: "")

    private static let fullMessage = #"""
        {"origin":{"user":"alice","device":"phone","id":"r3","digest":9},"created":1790000000001,"expires":1790000030001,"seq":5,
        "stream":"s","data":"[1]","state":"sent","finished":1790000000002,"served":1790000000003,"receiptDue":1790000000004,
        "withheld":true}
        """#.replacing("\n", with: "")

    @Test func theRecordsOfTheseTestsHaveEveryField() throws {
        let records: [(String, RecordID)] = [
            (Self.fullCall, .call(CallID("full")!)), (Self.fullMessage, .message(MessageID("m")!, to: bob)),
        ]
        for (text, id) in records {
            let record = RecordCodec.decode(Array(text.utf8), id)
            #expect(String(decoding: RecordCodec.encode(record), as: UTF8.self) == text)
            switch record {
            case .call(let call):
                for part in [call, call.members[1], call.outcomes[0], call.pushTexts[0].push] as [Any] {
                    #expect(missing(in: part) == [], "\(type(of: part))")
                }
            case .message(let message): #expect(missing(in: message) == [])
            default: Issue.record("not read: \(text)")
            }
        }
    }

    /// Returns the names of the fields that hold nothing.
    private func missing(in part: Any) -> [String] {
        Mirror(reflecting: part).children.filter {
            let value = Mirror(reflecting: $0.value)
            return value.displayStyle == .optional && value.children.isEmpty
        }.compactMap(\.label)
    }

    private func fill(_ test: StoreUnderTest) throws {
        let (app, worker) = (EndpointName("app")!, WorkerID("worker"))
        let endpoint = KeptEndpoint(name: app, patterns: "call.*", url: "https://x/app", backlog: 10, bytes: 1_000)
        try test.outbox.keep([endpoint])
        try test.outbox.note("HTTP 500", of: app, at: "https://x/app")
        try fillRecords(test, app)
        // An entry waits to be tried again, another is a dead letter, and the third is held.
        let items = try test.outbox.claim(app, by: worker, limit: 10, near: nil)
        #expect(items.count == 3)
        for item in items {
            if item.id == .call(CallID("full")!) {
                _ = try test.outbox.settle([Settlement(item, .again(after: 60_000))], by: worker)
            } else if item.id == .call(CallID("ended")!) {
                _ = try test.outbox.settle([Settlement(item, .givenUp)], by: worker)
            }
        }
        _ = try test.online(alicePhone, "s1")
        try test.offline(bobPhone, "s2")
        _ = try test.store.update(alice, .init(name: "Alice", avatarURL: "https://x/alice", extendedData: "data"))
        _ = try test.store.set(Block(by: alice, of: carol), true)
        try test.store.charge([StoredCharge(StoredPeriod(of: alice, number: 5), bytes: 100, until: Self.future)])
        try fillPushes(test, worker)
    }

    private static let future = now + 3_650 * 86_400_000

    private func fillRecords(_ test: StoreUnderTest, _ app: EndpointName) throws {
        let device = alicePhone
        let push = PushState(
            PushRegistration.Key(bobPhone, .standard, .fcm), invitation: 1, ring: .sent, stop: .trying, missed: .over,
            target: "mark", wasRungElsewhere: true)
        guard case .call(let full) = RecordCodec.decode(Array(Self.fullCall.utf8), .call(CallID("full")!)) else {
            throw StoreError(.failed, "no call")
        }
        try test.write(full, deadline: Self.future, expiresAt: Self.future) {
            $0.notes = [
                .ack(full.callID, DeviceAck(device: device, session: "s1", revision: 3)),
                .heard(full.callID, UserHeard(userID: alice, at: Self.now)),
                .milestone(full.callID, device, Milestone(name: "shown", milliseconds: 7)),
                .push(full.callID, push), .ringCheck(full.callID, RingCheck(device: bobPhone, invitation: 1)),
            ]
            $0.claims = [.activeCall(of: alice), .ringing(from: alice, to: bob), .ringing(from: bob, to: alice)]
            $0.asked = [(.invitation(of: bob, to: full.callID, by: alice), Self.future)]
            $0.outboxEntries = OutboxEntries(
                to: [app], revisions: [.init(number: 9, time: Self.now, record: .call(full))])
            $0.pushes = true
            $0.liveChange = .live(ringing: 1)
        }
        let ended = call("ended", endedAt: Self.future)
        try test.write(ended, expiresAt: Self.future) {
            $0.outboxEntries = OutboxEntries(
                to: [app], revisions: [.init(number: 1, time: Self.now, record: .call(ended))])
        }
        let message = RecordID.message(MessageID("m")!, to: bob)
        let withheld = RecordID.message(MessageID("n")!, to: bob)
        let waiting = Self.fullMessage.replacing(",\"withheld\":true", with: "")
        let records: [(RecordID, Record)] = [
            (.call(CallID("alias")!), .alias(of: full.callID, origin: full.origin)),
            (.call(CallID("cancelled")!), .cancelled(by: alice, at: Self.now)), (.call(CallID("void")!), .void),
            (withheld, RecordCodec.decode(Array(Self.fullMessage.utf8), withheld)),
            (message, RecordCodec.decode(Array(waiting.utf8), message)),
        ]
        var commits = records.map { id, record in
            Commit(id, record: record, expected: 0, deadline: Self.future, expiresAt: Self.future)
        }
        commits[4].asked = [(.message(message, by: alice), Self.future)]
        commits[4].outboxEntries = OutboxEntries(
            to: [app], revisions: [.init(number: 1, time: Self.now, record: records[4].1)])
        #expect(try test.store.commit(commits) == Array(repeating: .committed(version: 1), count: commits.count))
        let steps: [TraceEntry.Step] = [
            .request(device, type: "call.invite", outcome: "ok"),
            .transition(
                revision: 1, state: .ringing, endReason: .hangup, actor: alice,
                changes: [
                    MemberChange(
                        userID: bob, state: .inviting, device: device.deviceID, reason: "r", extendedData: "d")
                ]),
            .send(.invited, to: bob, device: device.deviceID, revision: 1, online: 2, isResend: true),
            .ack(device, revision: 1), .presence(device, state: "online"), .deadline(late: 3),
            .push(
                PushStep(device: device, platform: .fcm, kind: .ring, outcome: .sent, status: 200, reason: "r", took: 4)
            ),
        ]
        let entries = steps.map { TraceEntry(time: Self.now, coordinator: "c1", step: $0) }
        try test.store.trace([CallTrace(full.callID, entries)], life: 86_400_000)
    }

    private func fillPushes(_ test: StoreUnderTest, _ worker: WorkerID) throws {
        try test.pushes.keep(PushPolicy(after: 1_000, apps: [.standard: [.apns, .fcm]]))
        try test.pushes.pushes(worker, for: 60_000)
        _ = try test.pushes.secret()
        try test.pushes.register(
            PushRegistration(.init(bobPhone, .standard, .fcm), target: .token("token"), digest: "d1", since: 0))
        let subscription = PushTarget.subscription(endpoint: "https://x/push", p256dh: "key", auth: "auth")
        try test.pushes.register(
            PushRegistration(.init(aliceWeb, .standard, .webPush), target: subscription, digest: "d2", since: 0))
        #expect(try test.pushes.reserve([PushReservation(device: bobPhone, inviter: alice, id: "x")]) == [true])
        #expect(try test.pushes.take(by: worker).count == 1)
    }

    // MARK: The content of a store

    private func contents(ofFile database: SQLiteDatabase) throws -> [String] {
        let schema = try database.query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name") {
            $0.text(0)
        }
        try database.execute("CREATE TEMP TABLE contents(line TEXT)")
        let names = try database.query("SELECT name FROM main.sqlite_master WHERE type='table' ORDER BY name") {
            $0.text(0)
        }
        for table in names {
            let columns = try database.query("SELECT name FROM pragma_table_info(?)", .text(table)) { $0.text(0) }
            let values = columns.map { column in
                // The secret consists of random bytes, of which only the length is listed.
                if column == "secret" { return "' secret=' || length(secret) || ' bytes'" }
                return "' \(column)=' || coalesce(CAST(\(column) AS TEXT), 'NULL')"
            }
            let line = values.joined(separator: " || ")
            try database.execute("INSERT INTO contents SELECT '\(table):' || \(line) FROM \(table)")
        }
        let rows = try database.query("SELECT line FROM contents ORDER BY line") { $0.text(0) }
        for table in names { #expect(rows.contains { $0.hasPrefix("\(table):") }, "nothing in \(table)") }
        return schema.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") } + rows
    }

    private func contents(of server: RedisServer) throws -> [String] {
        let script = """
            local lines = {}
            local commands = {
              string = {'GET'}, list = {'LRANGE', 0, -1}, zset = {'ZRANGE', 0, -1}, set = {'SMEMBERS'},
              hash = {'HGETALL'}}
            local keys = {}
            for _, key in ipairs(redis.call('KEYS', '*')) do
              -- A worker's lease lasts for two seconds, and may have ended.
              if not string.find(key, ':worker:', 1, true) then keys[#keys + 1] = key end
            end
            for _, key in ipairs(keys) do
              local kind = redis.call('TYPE', key).ok
              local command = commands[kind]
              local values = redis.call(command[1], key, unpack(command, 2))
              if kind == 'string' then values = {values} end
              local life = redis.call('PTTL', key) > 0 and ' expires' or ''
              local step = kind == 'hash' and 2 or 1
              for place = 1, #values, step do
                local text = values[place]
                if step == 2 then text = text .. '=' .. values[place + 1] end
                -- Of random bytes.
                if values[place] == 'secret' then text = 'secret=' .. #values[place + 1] .. ' bytes' end
                if key == 'bellwire:clock' then
                  local format, rest = string.match(text, '^(%S+) (.*)$')
                  local _, count = string.gsub(rest, '[^:]+', '')
                  text = format .. ' and ' .. count .. ' numbers'
                end
                -- Redis's clock cannot be held: the times that are given here are known by how they begin.
                text = string.gsub(text, '%d+', function(digits)
                  local isGiven = string.find(digits, '^17900') or string.find(digits, '^2105')
                  if #digits >= 13 and not isGiven then return 'TIME' end
                end)
                lines[#lines + 1] = key .. ' ' .. kind .. life .. ': ' .. text
              end
            end
            return lines
            """
        var pipeline = RedisPipeline()
        pipeline.command("EVAL", 2) {
            $0.add(script)
            $0.add("0")
        }
        let reply = try RedisConnection(server.address, timeout: 1_000).run(pipeline)[0]
        return try reply.values().map { String(decoding: $0, as: UTF8.self) }.sorted()
    }
}
