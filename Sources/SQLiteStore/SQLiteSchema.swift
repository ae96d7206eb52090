import CallStore

/// The tables of the embedded store.
///
/// Calls are numbered in the order of their creation, and the data beside a call has the call's number as its key. Rows
/// that are written at the same time then share pages. With the random call ids as keys, each call would need pages of
/// its own in every table.
enum SQLiteSchema {
    /// The format of the file, which the file keeps as `user_version`: the tables, and the content of their columns.
    /// Each change of either adds 1 to this number (`FormatTests`, docs/decisions/0028). Builds before 0.2.0 had the
    /// formats 1 to 9.
    static let format = StoreFormat(10)

    /// Whether the file has its tables. A file without tables is new. Throws, and changes no data, when the file has
    /// another format.
    static func isComplete(_ database: SQLiteDatabase, _ summary: String) throws(StoreError) -> Bool {
        let found = try database.query("PRAGMA user_version") { $0.integer(0) }.first ?? 0
        if found == format.number { return true }
        let tables = try database.query("SELECT count(*) FROM sqlite_master") { $0.integer(0) }.first ?? 0
        if found == 0, tables == 0 { return false }
        throw format.refusal(
            of: found > 0 ? found : nil, in: summary,
            instead: "another file (--store sqlite:PATH, or --data of bellwire dev)")
    }

    /// Creates the tables in a new file.
    static func complete(_ database: SQLiteDatabase, _ summary: String) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            // Another process may have created the tables meanwhile.
            if try isComplete(database, summary) { return }
            for sql in [tables, tablesOfOutbox, tablesOfPushes] { try database.execute(sql) }
            try database.execute("PRAGMA user_version=\(format.number)")
        }
    }

    /// Checks the stamp of the file, and writes the stamp into a file without a stamp.
    static func check(_ stamp: DeploymentStamp, _ summary: String, _ database: SQLiteDatabase) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            let found = try database.query("SELECT topic_root FROM deployment") { $0.bytes(0) }.first
            guard try stamp.mustBeWritten(over: found, in: summary) else { return }
            try database.run("DELETE FROM deployment")
            try database.run("INSERT INTO deployment VALUES(?)", .text(stamp.topicRoot))
        }
    }

    /// In all tables, `call` is the number of a call or of a peer message. `outstanding` holds the entries that count
    /// towards a user's limits and expire by themselves; `stored` has a row for each user and period. `clock` has a
    /// single row (`SQLiteClock`), `deployment` has at most one row (`DeploymentStamp`).
    private static let tables = """
        CREATE TABLE calls(
            call INTEGER PRIMARY KEY, call_id BLOB NOT NULL UNIQUE, version INTEGER NOT NULL, record BLOB NOT NULL,
            deadline INTEGER, expires_at INTEGER);
        CREATE INDEX calls_by_deadline ON calls(deadline) WHERE deadline IS NOT NULL;
        CREATE INDEX calls_by_expiry ON calls(expires_at) WHERE expires_at IS NOT NULL;
        CREATE TABLE user_calls(
            user_id BLOB, created_at INTEGER, call_id BLOB, ended_at INTEGER NOT NULL, call INTEGER NOT NULL,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        CREATE INDEX user_calls_by_end ON user_calls(user_id, ended_at);
        CREATE INDEX user_calls_by_call ON user_calls(call);
        CREATE TABLE acks(
            call INTEGER, user_id BLOB, device_id BLOB, session BLOB NOT NULL, revision INTEGER NOT NULL,
            PRIMARY KEY(call, user_id, device_id)) WITHOUT ROWID;
        CREATE TABLE heard(
            call INTEGER, user_id BLOB, at INTEGER NOT NULL, PRIMARY KEY(call, user_id)) WITHOUT ROWID;
        CREATE TABLE milestones(
            call INTEGER, user_id BLOB, device_id BLOB, name BLOB, milliseconds INTEGER NOT NULL,
            PRIMARY KEY(call, user_id, device_id, name)) WITHOUT ROWID;
        CREATE TABLE trace(call INTEGER, number INTEGER, entry BLOB NOT NULL, PRIMARY KEY(call, number)) WITHOUT ROWID;
        CREATE TABLE claims(claim BLOB PRIMARY KEY, call INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX claims_by_call ON claims(call);
        CREATE TABLE presence(
            user_id BLOB, device_id BLOB, session BLOB NOT NULL, online INTEGER NOT NULL, since INTEGER NOT NULL,
            seen INTEGER NOT NULL, PRIMARY KEY(user_id, device_id)) WITHOUT ROWID;
        CREATE INDEX presence_by_seen ON presence(seen);
        CREATE TABLE over_sessions(
            user_id BLOB, device_id BLOB, session BLOB, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, device_id, session)) WITHOUT ROWID;
        CREATE INDEX over_sessions_by_end ON over_sessions(until);
        CREATE TABLE user_messages(
            user_id BLOB, created_at INTEGER, call_id BLOB,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        CREATE TABLE users(
            user_id BLOB PRIMARY KEY, name BLOB, avatar_url BLOB, extended_data BLOB) WITHOUT ROWID;
        CREATE TABLE blocks(
            user_id BLOB, blocked_id BLOB, PRIMARY KEY(user_id, blocked_id)) WITHOUT ROWID;
        CREATE TABLE outstanding(
            user_id BLOB, kind BLOB, name BLOB, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, kind, name)) WITHOUT ROWID;
        CREATE TABLE stored(
            user_id BLOB, period INTEGER, bytes INTEGER NOT NULL, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, period)) WITHOUT ROWID;
        CREATE INDEX stored_by_end ON stored(until);
        CREATE TABLE clock(one INTEGER PRIMARY KEY, boot_id BLOB NOT NULL, offset INTEGER NOT NULL, agreed BLOB NOT NULL);
        CREATE TABLE deployment(topic_root BLOB NOT NULL);
        """

    /// `id` is a record's id. A line holds all entries of one record for one endpoint, and the line's `time` is the
    /// time of its first revision. `owner` is the user because of whom the entries are kept. `bytes` of an owner counts
    /// the queued entries and the dead letters of that user. `last` is the result of the last attempt.
    private static let tablesOfOutbox = """
        CREATE TABLE outbox_endpoints(
            name BLOB PRIMARY KEY, patterns BLOB NOT NULL, url BLOB NOT NULL, backlog INTEGER NOT NULL,
            most_bytes INTEGER NOT NULL, off INTEGER NOT NULL, waiting INTEGER NOT NULL, dead INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE outbox(
            endpoint BLOB, id BLOB, number INTEGER, time INTEGER NOT NULL, record BLOB NOT NULL,
            PRIMARY KEY(endpoint, id, number)) WITHOUT ROWID;
        CREATE TABLE outbox_lines(
            endpoint BLOB, id BLOB, due INTEGER, holder BLOB, attempts INTEGER NOT NULL, first_attempt INTEGER,
            time INTEGER NOT NULL, owner BLOB NOT NULL, PRIMARY KEY(endpoint, id)) WITHOUT ROWID;
        CREATE INDEX outbox_lines_by_due ON outbox_lines(endpoint, due) WHERE due IS NOT NULL;
        CREATE INDEX outbox_lines_by_holder ON outbox_lines(holder) WHERE holder IS NOT NULL;
        CREATE INDEX outbox_lines_by_time ON outbox_lines(endpoint, time);
        CREATE INDEX outbox_lines_by_owner ON outbox_lines(endpoint, owner, time);
        CREATE TABLE outbox_dead(
            endpoint BLOB, id BLOB, number INTEGER, time INTEGER NOT NULL, record BLOB NOT NULL, since INTEGER NOT NULL,
            owner BLOB NOT NULL, PRIMARY KEY(endpoint, id, number)) WITHOUT ROWID;
        CREATE INDEX outbox_dead_by_since ON outbox_dead(endpoint, since);
        CREATE INDEX outbox_dead_by_owner ON outbox_dead(endpoint, owner, since);
        CREATE TABLE outbox_owners(
            endpoint BLOB, owner BLOB, bytes INTEGER NOT NULL, PRIMARY KEY(endpoint, owner)) WITHOUT ROWID;
        CREATE INDEX outbox_owners_by_bytes ON outbox_owners(endpoint, bytes);
        CREATE TABLE outbox_attempts(endpoint BLOB PRIMARY KEY, last BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE outbox_workers(worker BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// `target` holds `PushTarget.text`. `pushes` and `ring_checks` lie beside a call, and the queue has the call's id
    /// as its key. `until` of a process is the time until which the process counts as running.
    private static let tablesOfPushes = """
        CREATE TABLE registrations(
            user_id BLOB, device_id BLOB, app BLOB, platform BLOB, target BLOB NOT NULL, digest BLOB NOT NULL,
            since INTEGER NOT NULL, PRIMARY KEY(user_id, device_id, app, platform)) WITHOUT ROWID;
        CREATE INDEX registrations_by_digest ON registrations(digest);
        CREATE INDEX registrations_by_since ON registrations(since);
        CREATE TABLE push_deployment(one INTEGER PRIMARY KEY, policy BLOB, secret BLOB NOT NULL);
        CREATE TABLE push_queue(
            call_id BLOB PRIMARY KEY, due INTEGER, holder BLOB, marked INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX push_queue_by_due ON push_queue(due) WHERE due IS NOT NULL;
        CREATE INDEX push_queue_by_holder ON push_queue(holder) WHERE holder IS NOT NULL;
        CREATE TABLE push_workers(worker BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE push_reservations(
            user_id BLOB, device_id BLOB, id BLOB, inviter BLOB NOT NULL, at INTEGER NOT NULL,
            PRIMARY KEY(user_id, device_id, id)) WITHOUT ROWID;
        CREATE INDEX push_reservations_by_time ON push_reservations(at);
        CREATE TABLE pushes(
            call INTEGER, user_id BLOB, device_id BLOB, app BLOB, platform BLOB, invitation INTEGER NOT NULL, ring BLOB,
            stop BLOB, missed BLOB, PRIMARY KEY(call, user_id, device_id, app, platform)) WITHOUT ROWID;
        CREATE TABLE ring_checks(
            call INTEGER, user_id BLOB, device_id BLOB, invitation INTEGER NOT NULL,
            PRIMARY KEY(call, user_id, device_id)) WITHOUT ROWID;
        CREATE TABLE push_processes(process BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        """
}
