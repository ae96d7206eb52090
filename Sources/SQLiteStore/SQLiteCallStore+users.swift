import CallCore
import CallStore
import SignalingProtocol

/// Data of users: their calls, their queued peer messages and their profiles; and the timelines of calls.
extension SQLiteCallStore {
    func calls(_ list: CallList) throws(StoreError) -> [CallID] {
        try database.query(
            """
            SELECT call_id FROM user_calls INDEXED BY user_calls_by_end WHERE user_id=? AND ended_at>?
            ORDER BY created_at DESC, call_id DESC LIMIT ?
            """, .id(list.user), .integer(list.endedAfter), .integer(Int64(list.limit))
        ) { CallID($0.text(0)) }
    }

    package func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) throws(StoreError) -> [HistoryPlace] {
        // The table may hold more ended calls than the store keeps. The result leaves out the first excess call and all
        // older ended calls.
        let excess = try database.query(
            """
            SELECT created_at, call_id FROM user_calls WHERE user_id=? AND ended_at<?
            ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET ?
            """, .id(user), .integer(Self.notEnded), .integer(Int64(historyPerUser)), read: Self.place
        ).first
        return try database.query(
            """
            SELECT created_at, call_id FROM user_calls WHERE user_id=?1 AND (created_at, call_id)<(?2, ?3)
            AND (ended_at=?4 OR (created_at, call_id)>(?5, ?6)) ORDER BY created_at DESC, call_id DESC LIMIT ?7
            """, .id(user), .integer(place?.createdAt ?? .max), .text(place?.callID.string ?? ""),
            .integer(Self.notEnded), .integer(excess?.createdAt ?? .min), .text(excess?.callID.string ?? ""),
            .integer(Int64(limit)), read: Self.place)
    }

    private static func place(_ row: SQLiteRow) -> HistoryPlace? {
        CallID(row.text(1)).map { HistoryPlace(createdAt: row.integer(0), callID: $0) }
    }

    func messages(_ list: MessageList) throws(StoreError) -> [RecordID] {
        try database.query(
            "SELECT call_id FROM user_messages WHERE user_id=? ORDER BY created_at, call_id LIMIT ?", .id(list.user),
            .integer(Int64(list.limit))
        ) { RecordID($0.text(0)) }
    }

    func profile(of user: UserID) throws(StoreError) -> UserProfile? {
        try database.query("SELECT name, avatar_url, extended_data FROM users WHERE user_id=?", .id(user)) { row in
            UserProfile(name: row.optionalText(0), avatarURL: row.optionalText(1), extendedData: row.optionalText(2))
        }.first
    }

    package func update(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> UserProfile {
        try database.transaction { () throws(StoreError) in
            var profile = try profile(of: user) ?? UserProfile()
            profile.apply(update)
            try database.run(
                "INSERT OR REPLACE INTO users VALUES(?,?,?,?)", .id(user), .optionalText(profile.name),
                .optionalText(profile.avatarURL), .optionalText(profile.extendedData))
            return profile
        }
    }

    func stands(_ block: Block) throws(StoreError) -> Bool {
        try !database.query(
            "SELECT 1 FROM blocks WHERE user_id=? AND blocked_id=?", .id(block.user), .id(block.blocked)
        ) { _ in true }.isEmpty
    }

    package func set(_ block: Block, _ isBlocked: Bool) throws(StoreError) -> Bool {
        try database.transaction { () throws(StoreError) in
            guard isBlocked else {
                try database.run(
                    "DELETE FROM blocks WHERE user_id=? AND blocked_id=?", .id(block.user), .id(block.blocked))
                return true
            }
            if try stands(block) { return true }
            let count = try database.query("SELECT count(*) FROM blocks WHERE user_id=?", .id(block.user)) {
                $0.integer(0)
            }
            guard count.first ?? 0 < Limits.blockedUsers else { return false }
            try database.run("INSERT INTO blocks VALUES(?,?)", .id(block.user), .id(block.blocked))
            return true
        }
    }

    package func blockList(of user: UserID) throws(StoreError) -> [UserID] {
        try database.query("SELECT blocked_id FROM blocks WHERE user_id=? ORDER BY blocked_id", .id(user)) {
            UserID($0.text(0))
        }
    }

    package func erase(_ user: UserID) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            let calls = try database.query("SELECT call FROM user_calls WHERE user_id=?", .id(user)) { $0.integer(0) }
            for call in calls {
                try database.run("DELETE FROM trace WHERE call=?", .integer(call))
                try database.run("DELETE FROM acks WHERE call=? AND user_id=?", .integer(call), .id(user))
                try database.run("DELETE FROM heard WHERE call=? AND user_id=?", .integer(call), .id(user))
                try database.run("DELETE FROM milestones WHERE call=? AND user_id=?", .integer(call), .id(user))
                try database.run("DELETE FROM pushes WHERE call=? AND user_id=?", .integer(call), .id(user))
                try database.run("DELETE FROM ring_checks WHERE call=? AND user_id=?", .integer(call), .id(user))
            }
            let messages = try database.query(
                "SELECT call FROM user_messages JOIN calls USING(call_id) WHERE user_id=?", .id(user)
            ) { $0.integer(0) }
            for message in messages {
                for deletion in Self.deletions { try database.run(deletion, .integer(message)) }
            }
            for deletion in Self.deletionsOfUser { try database.run(deletion, .id(user)) }
            try database.run("DELETE FROM claims WHERE claim=?", .claim(.activeCall(of: user)))
        }
    }

    private static let deletionsOfUser: [StaticString] = [
        "DELETE FROM user_calls WHERE user_id=?", "DELETE FROM user_messages WHERE user_id=?",
        "DELETE FROM users WHERE user_id=?", "DELETE FROM blocks WHERE user_id=?1 OR blocked_id=?1",
        "DELETE FROM presence WHERE user_id=?",
        "DELETE FROM outstanding WHERE user_id=?", "DELETE FROM stored WHERE user_id=?",
        "DELETE FROM registrations WHERE user_id=?", "DELETE FROM push_reservations WHERE user_id=?",
    ]

    // MARK: Timelines

    /// Adds entries. The timeline is deleted with its call, so the call's retention applies instead of `life`.
    package func trace(_ traces: [CallTrace], life: Milliseconds) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            for trace in traces {
                guard let number = try number(of: .call(trace.callID)) else { continue }
                let (first, last) =
                    try database.query("SELECT min(number), max(number) FROM trace WHERE call=?", .integer(number)) {
                        ($0.integer(0), $0.integer(1))
                    }.first ?? (0, 0)
                var new = trace.entries
                if Int(last - first) + new.count >= Limits.traceEntries {
                    // The oldest entries can only be found among all entries.
                    var timeline = try timeline(ofCall: number)
                    timeline.add(new)
                    new = timeline.entries
                    try database.run("DELETE FROM trace WHERE call=?", .integer(number))
                }
                let next = last + Int64(trace.entries.count - new.count) + 1
                for (index, entry) in new.enumerated() {
                    try database.run(
                        "INSERT INTO trace VALUES(?,?,?)", .integer(number), .integer(next + Int64(index)),
                        .blob(entry.encoded()))
                }
            }
        }
    }

    package func timeline(of callID: CallID) throws(StoreError) -> Timeline {
        guard let number = try number(of: .call(callID)) else { return Timeline(entries: []) }
        return try timeline(ofCall: number)
    }

    /// Returns the timeline of a call. Entries are numbered in the order of their writes, and the first number that is
    /// left tells how many entries were dropped.
    private func timeline(ofCall number: Int64) throws(StoreError) -> Timeline {
        var first: Int64?
        let entries = try database.query(
            "SELECT number, entry FROM trace WHERE call=? ORDER BY number", .integer(number)
        ) { row in
            first = first ?? row.integer(0)
            return TraceEntry(row.bytes(1))
        }
        return Timeline(entries: entries.inOrderOfTime(), omitted: Int(first ?? 1) - 1)
    }
}
