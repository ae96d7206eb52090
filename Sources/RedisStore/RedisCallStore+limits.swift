import CallCore
import CallStore
import SignalingProtocol
import Support

/// Counts for the limits of users: the unanswered invitations and waiting messages of a user, and the bytes kept
/// because of the user.
extension RedisCallStore {
    /// The life of a list of unanswered invitations or waiting messages after its last change: longer than any entry
    /// lasts (at most 600 s).
    private static let outstandingLife = Retention.outstanding

    private static let cleaningOdds = 32

    func add(_ count: OutstandingCount, to pipeline: inout RedisPipeline) {
        switch count.isByInvitee {
        case true:
            pipeline.command("ZRANGEBYSCORE", 6) {
                $0.add(key(count.user, count.kind.keyName))
                $0.add(count.after, after: UInt8(ascii: "("))
                $0.add("+inf")
                $0.add("LIMIT")
                $0.add(0)
                $0.add(Int64(count.limit))
            }
        case false:
            pipeline.command("ZCOUNT", 3) {
                $0.add(key(count.user, count.kind.keyName))
                $0.add(count.after, after: UInt8(ascii: "("))
                $0.add("+inf")
            }
        }
    }

    /// Returns the number in the reply to the command of `add`.
    func number(of count: OutstandingCount, in reply: RedisReply) throws(StoreError) -> OutstandingNumber {
        switch count.isByInvitee {
        case true:
            return OutstandingNumber(invitations: try reply.values().compactMap(\.text))
        case false: return OutstandingNumber(count: Int(try reply.number()))
        }
    }

    /// Adds the entries of new invitations and messages. These commands run before the commit, so that the next request
    /// of the same user counts them at every coordinator. Lost commits take their entries back;
    /// an entry of a coordinator that died in between stays until its time is over.
    func addOutstanding(of commit: Commit, to pipeline: inout RedisPipeline) {
        for (place, (asked, until)) in commit.asked.enumerated() {
            let list = key(asked.user, asked.kind.keyName)
            pipeline.command("ZADD", 3) {
                $0.add(list)
                $0.add(until)
                $0.add(asked.name)
            }
            // An inviter often invites several users at once.
            guard place == 0 || commit.asked[place - 1].what.user != asked.user else { continue }
            // Entries of a coordinator that died no longer count, and are removed at random.
            if Int.random(in: 0..<Self.cleaningOdds, using: &lots) == 0 {
                pipeline.command("ZREMRANGEBYSCORE", 3) {
                    $0.add(list)
                    $0.add("-inf")
                    $0.add(until - Self.outstandingLife)
                }
            }
            pipeline.command("PEXPIRE", 2) {
                $0.add(list)
                $0.add(Self.outstandingLife)
            }
        }
    }

    /// Adds the removal of the entries of answered invitations and delivered messages. These commands run after the
    /// commit, and no request waits for them.
    func removeSettled(of commit: Commit, to pipeline: inout RedisPipeline) {
        for settled in commit.settled { remove(settled, to: &pipeline) }
    }

    /// Removes the entries of lost commits, except entries that the record justifies: another coordinator may have
    /// committed a copy of the same request, and its invitation or message must count.
    func takeBackOutstanding(of lost: [Commit]) async throws(StoreError) {
        let commits = lost.filter { !$0.asked.isEmpty }
        guard !commits.isEmpty else { return }
        let answers = try await read(commits.map { .record($0.id) })
        var pipeline = try session.pipeline()
        for (commit, answer) in zip(commits, answers) {
            let record = answer.record?.record
            for (asked, _) in commit.asked where !asked.isOpen(in: record) { remove(asked, to: &pipeline) }
        }
        guard !pipeline.commands.isEmpty else { return }
        _ = try await session.run(pipeline)
    }

    private func remove(_ outstanding: Outstanding, to pipeline: inout RedisPipeline) {
        pipeline.command("ZREM", 2) {
            $0.add(key(outstanding.user, outstanding.kind.keyName))
            $0.add(outstanding.name)
        }
    }

    func key(_ period: StoredPeriod) -> RedisKey { key(period.user, "stored:", period.number) }

    /// Adds the query for a user's periods: their keys are in one slot.
    func add(_ stored: StoredPeriods, to pipeline: inout RedisPipeline) {
        pipeline.command("MGET", stored.numbers.count) { for period in stored.periods { $0.add(key(period)) } }
    }

    /// Returns the numbers in the reply to `MGET` of a user's periods. A damaged number counts as 0.
    func storedBytes(in reply: RedisReply) throws(StoreError) -> [Int] {
        guard let values = reply.array else { throw reply.unexpected }
        var bytes: [Int] = []
        for value in values { bytes.append(try value.value().flatMap(StoredNumber.time).map(Int.init) ?? 0) }
        return bytes
    }

    package func charge(_ charges: [StoredCharge]) async throws(StoreError) {
        var pipeline = try session.pipeline()
        for charge in charges {
            pipeline.command("INCRBY", 2) {
                $0.add(key(charge.period))
                $0.add(Int64(charge.bytes))
            }
            pipeline.command("PEXPIREAT", 2) {
                $0.add(key(charge.period))
                $0.add(session.raw(charge.until))
            }
        }
        _ = try await session.run(pipeline, isWrite: true)
    }
}

extension Outstanding {
    /// Whether the record holds the open invitation or the queued message. An unreadable record may hold the entry.
    fileprivate func isOpen(in record: Record?) -> Bool {
        switch record {
        case .call(let call):
            guard call.isLive, let invitee = Outstanding.invitee(ofInvitation: name), let member = call.member(invitee)
            else { return false }
            return member.state.isPending && member.invitedBy == user
        case .message(let message): return message.isWaiting
        case .unreadable: return true
        case .alias, .cancelled, .void, nil: return false
        }
    }
}

extension Outstanding.Kind {
    /// The key "sent" holds the user's messages to others; the key "messages" holds the messages that wait for the
    /// user.
    fileprivate var keyName: String {
        switch self {
        case .invitations: "invitations"
        case .messages: "sent"
        }
    }
}
