/// The tables of the embedded store.
///
/// Calls are numbered as they are made, and what is kept beside a call goes by its number: what is written at the same time then
/// lies in the same pages. By their ids, which are random, each call would have pages of its own in every table.
enum SQLiteSchema {
    private static let version: Int64 = 9
    /// Version 4 numbers calls.
    private static let firstWithNumbers: Int64 = 4

    /// Makes the tables in a new file, and brings those of an earlier version to this one.
    static func prepare(_ database: SQLiteDatabase) throws(StoreError) {
        guard try found(in: database) < version else {
            try database.execute(clock)
            return try database.execute(tableOfAttempts)
        }
        try database.upgrade { () throws(StoreError) in
            // Another process may have done it meanwhile.
            let found = try found(in: database)
            guard found < version else { return }
            if 1..<firstWithNumbers ~= found { try database.execute(renaming) }
            if found < firstWithNumbers { try database.execute(tables) }
            if 1..<firstWithNumbers ~= found { try database.execute(numbering) }
            try database.execute(clock)
            try database.execute(tablesOfLimits)
            try database.execute(tablesOfOutbox)
            try database.execute(tableOfAttempts)
            try database.execute(tablesOfPushes)
            try database.execute(tableOfPushProcesses)
            if try !hasOwners(database) { try database.execute(tableOfOutboxOwners) }
            try database.execute("PRAGMA user_version=\(version)")
        }
    }

    /// Stamps a file that has no stamp. A table of its own, whatever the version: an earlier one does not know of it.
    static func check(_ stamp: DeploymentStamp, _ summary: String, _ database: SQLiteDatabase) throws(StoreError) {
        try database.upgrade { () throws(StoreError) in
            try database.execute("CREATE TABLE IF NOT EXISTS deployment(topic_root BLOB NOT NULL)")
            let found = try database.query("SELECT topic_root FROM deployment") { $0.bytes(0) }.first
            guard try stamp.mustBeWritten(over: found, in: summary) else { return }
            try database.run("DELETE FROM deployment")
            try database.run("INSERT INTO deployment VALUES(?)", .text(stamp.topicRoot))
        }
    }

    private static func found(in database: SQLiteDatabase) throws(StoreError) -> Int64 {
        let found = try database.query("PRAGMA user_version") { $0.integer(0) }.first ?? 0
        guard found <= version else {
            throw StoreError(.foreign, "written by a later version of Bellwire (schema \(found))")
        }
        return found
    }

    private static func hasOwners(_ database: SQLiteDatabase) throws(StoreError) -> Bool {
        let columns = try database.query("SELECT 1 FROM pragma_table_info('outbox_lines') WHERE name='owner'") {
            $0.integer(0)
        }
        return !columns.isEmpty
    }

    /// One row. Earlier versions go without it.
    private static let clock = """
        CREATE TABLE IF NOT EXISTS clock(one INTEGER PRIMARY KEY, boot_id BLOB NOT NULL, offset INTEGER NOT NULL,
            agreed BLOB NOT NULL)
        """

    /// What the last attempt at an endpoint came to. Earlier versions go without it.
    private static let tableOfAttempts = """
        CREATE TABLE IF NOT EXISTS outbox_attempts(endpoint BLOB PRIMARY KEY, last BLOB NOT NULL) WITHOUT ROWID
        """

    /// `call` is a call's number, here and in the tables below; also a message is such a "call".
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
        CREATE TABLE IF NOT EXISTS presence(
            user_id BLOB, device_id BLOB, session BLOB NOT NULL, online INTEGER NOT NULL, since INTEGER NOT NULL,
            seen INTEGER NOT NULL, PRIMARY KEY(user_id, device_id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS presence_by_seen ON presence(seen);
        CREATE TABLE IF NOT EXISTS over_sessions(
            user_id BLOB, device_id BLOB, session BLOB, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, device_id, session)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS over_sessions_by_end ON over_sessions(until);
        CREATE TABLE IF NOT EXISTS user_messages(
            user_id BLOB, created_at INTEGER, call_id BLOB,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS users(
            user_id BLOB PRIMARY KEY, name BLOB, avatar_url BLOB, extended_data BLOB) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS blocks(
            user_id BLOB, blocked_id BLOB, PRIMARY KEY(user_id, blocked_id)) WITHOUT ROWID;
        """

    /// Since version 5. What is outstanding is little; what is stored goes by user and period, so many times as there are users.
    private static let tablesOfLimits = """
        CREATE TABLE IF NOT EXISTS outstanding(
            user_id BLOB, kind BLOB, name BLOB, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, kind, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS stored(
            user_id BLOB, period INTEGER, bytes INTEGER NOT NULL, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, period)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS stored_by_end ON stored(until);
        """

    /// Since version 6. `id` is a record's; a line is all that is owed to one endpoint of one record, `time` that of its first revision.
    private static let tablesOfOutbox = """
        CREATE TABLE IF NOT EXISTS outbox_endpoints(
            name BLOB PRIMARY KEY, patterns BLOB NOT NULL, url BLOB NOT NULL, backlog INTEGER NOT NULL,
            most_bytes INTEGER NOT NULL, off INTEGER NOT NULL, waiting INTEGER NOT NULL, dead INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS outbox(
            endpoint BLOB, id BLOB, number INTEGER, time INTEGER NOT NULL, record BLOB NOT NULL,
            PRIMARY KEY(endpoint, id, number)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS outbox_lines(
            endpoint BLOB, id BLOB, due INTEGER, holder BLOB, attempts INTEGER NOT NULL, first_attempt INTEGER,
            time INTEGER NOT NULL, PRIMARY KEY(endpoint, id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS outbox_lines_by_due ON outbox_lines(endpoint, due) WHERE due IS NOT NULL;
        CREATE INDEX IF NOT EXISTS outbox_lines_by_holder ON outbox_lines(holder) WHERE holder IS NOT NULL;
        CREATE INDEX IF NOT EXISTS outbox_lines_by_time ON outbox_lines(endpoint, time);
        CREATE TABLE IF NOT EXISTS outbox_dead(
            endpoint BLOB, id BLOB, number INTEGER, time INTEGER NOT NULL, record BLOB NOT NULL, since INTEGER NOT NULL,
            PRIMARY KEY(endpoint, id, number)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS outbox_dead_by_since ON outbox_dead(endpoint, since);
        CREATE TABLE IF NOT EXISTS outbox_workers(worker BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// Since version 7. `target` is that of `PushTarget.text`; `pushes` and `ring_checks` lie beside a call, the queue goes by its id.
    private static let tablesOfPushes = """
        CREATE TABLE IF NOT EXISTS registrations(
            user_id BLOB, device_id BLOB, app BLOB, platform BLOB, target BLOB NOT NULL, digest BLOB NOT NULL,
            since INTEGER NOT NULL, PRIMARY KEY(user_id, device_id, app, platform)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS registrations_by_digest ON registrations(digest);
        CREATE INDEX IF NOT EXISTS registrations_by_since ON registrations(since);
        CREATE TABLE IF NOT EXISTS push_deployment(one INTEGER PRIMARY KEY, policy BLOB, secret BLOB NOT NULL);
        CREATE TABLE IF NOT EXISTS push_queue(
            call_id BLOB PRIMARY KEY, due INTEGER, holder BLOB, marked INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS push_queue_by_due ON push_queue(due) WHERE due IS NOT NULL;
        CREATE INDEX IF NOT EXISTS push_queue_by_holder ON push_queue(holder) WHERE holder IS NOT NULL;
        CREATE TABLE IF NOT EXISTS push_workers(worker BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS push_reservations(
            user_id BLOB, device_id BLOB, id BLOB, inviter BLOB NOT NULL, at INTEGER NOT NULL,
            PRIMARY KEY(user_id, device_id, id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS push_reservations_by_time ON push_reservations(at);
        CREATE TABLE IF NOT EXISTS pushes(
            call INTEGER, user_id BLOB, device_id BLOB, app BLOB, platform BLOB, invitation INTEGER NOT NULL, ring BLOB,
            stop BLOB, missed BLOB, PRIMARY KEY(call, user_id, device_id, app, platform)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS ring_checks(
            call INTEGER, user_id BLOB, device_id BLOB, invitation INTEGER NOT NULL,
            PRIMARY KEY(call, user_id, device_id)) WITHOUT ROWID;
        """

    /// Since version 8. `until`: so long the process counts as there.
    private static let tableOfPushProcesses = """
        CREATE TABLE IF NOT EXISTS push_processes(process BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// Since version 9. `owner`: the user because of whom it is kept. `bytes`: what waits and dead letters of one user.
    private static let tableOfOutboxOwners = """
        ALTER TABLE outbox_lines ADD COLUMN owner BLOB NOT NULL DEFAULT x'';
        ALTER TABLE outbox_dead ADD COLUMN owner BLOB NOT NULL DEFAULT x'';
        CREATE INDEX outbox_lines_by_owner ON outbox_lines(endpoint, owner, time);
        CREATE INDEX outbox_dead_by_owner ON outbox_dead(endpoint, owner, since);
        CREATE TABLE outbox_owners(
            endpoint BLOB, owner BLOB, bytes INTEGER NOT NULL, PRIMARY KEY(endpoint, owner)) WITHOUT ROWID;
        CREATE INDEX outbox_owners_by_bytes ON outbox_owners(endpoint, bytes);
        -- What an earlier version has written is nobody's in particular.
        INSERT INTO outbox_owners SELECT endpoint, x'', sum(bytes) FROM (
            SELECT endpoint, length(record) AS bytes FROM outbox
            UNION ALL SELECT endpoint, length(record) FROM outbox_dead) GROUP BY endpoint;
        """

    /// Indexes go with their tables when those are dropped, but keep their names when those are renamed.
    private static let renaming = """
        DROP INDEX calls_by_deadline;
        DROP INDEX calls_by_expiry;
        DROP INDEX user_calls_by_end;
        DROP INDEX user_calls_by_call;
        DROP INDEX claims_by_call;
        CREATE TABLE IF NOT EXISTS milestones(
            call_id BLOB, user_id BLOB, device_id BLOB, name BLOB, milliseconds INTEGER NOT NULL,
            PRIMARY KEY(call_id, user_id, device_id, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS trace(
            call_id BLOB, number INTEGER, entry BLOB NOT NULL, PRIMARY KEY(call_id, number)) WITHOUT ROWID;
        ALTER TABLE calls RENAME TO old_calls;
        ALTER TABLE user_calls RENAME TO old_user_calls;
        ALTER TABLE acks RENAME TO old_acks;
        ALTER TABLE heard RENAME TO old_heard;
        ALTER TABLE milestones RENAME TO old_milestones;
        ALTER TABLE trace RENAME TO old_trace;
        ALTER TABLE claims RENAME TO old_claims;
        """

    private static let numbering = """
        INSERT INTO calls(call_id, version, record, deadline, expires_at)
            SELECT call_id, version, record, deadline, expires_at FROM old_calls;
        INSERT INTO user_calls SELECT user_id, created_at, call_id, ended_at, call
            FROM old_user_calls JOIN calls USING(call_id);
        INSERT INTO acks SELECT call, user_id, device_id, session, revision FROM old_acks JOIN calls USING(call_id);
        INSERT INTO heard SELECT call, user_id, at FROM old_heard JOIN calls USING(call_id);
        INSERT INTO milestones SELECT call, user_id, device_id, name, milliseconds
            FROM old_milestones JOIN calls USING(call_id);
        INSERT INTO trace SELECT call, number, entry FROM old_trace JOIN calls USING(call_id);
        INSERT INTO claims SELECT claim, call FROM old_claims JOIN calls USING(call_id);
        DROP TABLE old_calls;
        DROP TABLE old_user_calls;
        DROP TABLE old_acks;
        DROP TABLE old_heard;
        DROP TABLE old_milestones;
        DROP TABLE old_trace;
        DROP TABLE old_claims;
        -- Who is online is known, also in a file of version 1.
        INSERT OR IGNORE INTO users(user_id) SELECT DISTINCT user_id FROM presence;
        """
}
