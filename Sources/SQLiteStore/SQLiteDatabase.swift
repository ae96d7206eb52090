import CSQLite
import CallStore
import Glibc

/// A thin layer over an SQLite connection: prepared statements, binding, transactions.
final class SQLiteDatabase {
    private let handle: OpaquePointer
    /// The prepared statements by the address of their SQL text. The text is static, so its address never changes.
    private var statements: [UnsafePointer<UInt8>: OpaquePointer] = [:]
    /// The number of transactions so far, including statements outside of a transaction.
    private(set) var transactions = 0

    /// The longest time, in milliseconds, that this process waits while another process holds the file.
    enum Patience: Int32 {
        /// The patience of a coordinator: shorter than the age at which inbound messages are stale, so that requests
        /// can still get the response `unavailable`.
        case coordinator = 250
        /// The patience of a process that only reads or helps: such a process tries again.
        case visitor = 50
    }

    private let patience: Patience
    /// The longest wait at the start, in milliseconds, when no request waits yet.
    private static let openingTimeout: Int32 = 10_000
    private static let busyPause: Int32 = 5

    init(path: String, patience: Patience = .coordinator) throws(StoreError) {
        Self.keepPrivate(path)
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &handle, flags, nil)
        guard code == SQLITE_OK, let handle else {
            let reason = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close(handle)
            throw StoreError(.failed, "\(path): \(reason)")
        }
        self.handle = handle
        self.patience = patience
        sqlite3_busy_timeout(handle, patience.rawValue)
    }

    /// Makes the file private. The file holds push tokens, secrets and the calls of users, so only its owner may read
    /// the file, whatever the umask is. SQLite gives `-wal` and `-shm` the mode of the file when they are created. This
    /// function reports no failure. Either opening the file fails later for the same cause, or the file belongs to
    /// another user, who is responsible for its mode.
    private static func keepPrivate(_ path: String) {
        guard !path.isEmpty, path != ":memory:" else { return }
        // An existing file is not opened here: closing the file would end the locks of this process on the same file.
        let made = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
        for name in [path, path + "-wal", path + "-shm"] {
            var found = stat()
            guard stat(name, &found) == 0, found.st_mode & S_IFMT == S_IFREG, found.st_mode & 0o077 != 0 else {
                continue
            }
            chmod(name, found.st_mode & 0o700)
        }
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close(handle)
    }

    func execute(_ sql: String) throws(StoreError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw error() }
    }

    /// Runs a statement for which SQLite does not wait by itself while another process holds the file, such as a change
    /// of the journal mode.
    func executeWhenFree(_ sql: String) throws(StoreError) {
        for _ in 0..<Self.openingTimeout / Self.busyPause {
            let code = sqlite3_exec(handle, sql, nil, nil, nil)
            guard code == SQLITE_BUSY else {
                if code == SQLITE_OK { return }
                throw error()
            }
            usleep(UInt32(Self.busyPause) * 1000)
        }
        throw error()
    }

    /// Copies this database, as of one moment, into an empty database. Writers of this database do not wait: in WAL
    /// mode a reader keeps nobody out.
    func copy(to target: SQLiteDatabase) throws(StoreError) {
        guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else { throw target.error() }
        var code = SQLITE_BUSY
        for _ in 0..<Self.openingTimeout / Self.busyPause where code == SQLITE_BUSY || code == SQLITE_LOCKED {
            code = sqlite3_backup_step(backup, -1)
            if code == SQLITE_BUSY || code == SQLITE_LOCKED { usleep(UInt32(Self.busyPause) * 1000) }
        }
        let result = sqlite3_backup_finish(backup)
        guard code == SQLITE_DONE, result == SQLITE_OK else { throw target.error() }
    }

    /// Runs `body` in a write transaction: the file takes all writes of `body` or none.
    func transaction<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        // The transaction is immediate: a reader that starts to write later would fail after a write of another
        // process.
        do throws(StoreError) {
            return try transaction("BEGIN IMMEDIATE", body)
        } catch {
            throw error.code == .failed ? StoreError(.notWritten, error.description) : error
        }
    }

    /// Runs `body` with the longer wait of the start, when this process serves no requests yet.
    func opening<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        sqlite3_busy_timeout(handle, Self.openingTimeout)
        defer { sqlite3_busy_timeout(handle, patience.rawValue) }
        return try body()
    }

    /// Runs `body`, which only reads, on a snapshot of the file.
    func reading<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        try transaction("BEGIN", body)
    }

    private func transaction<Result>(
        _ begin: StaticString, _ body: () throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        try run(begin)
        do throws(StoreError) {
            let result = try body()
            try run("COMMIT")
            return result
        } catch {
            // A failed rollback needs no report: the transaction has ended in any case, and the first error is the
            // cause.
            sqlite3_exec(handle, "ROLLBACK", nil, nil, nil)
            throw error
        }
    }

    /// Runs a statement without result rows. Returns the number of changed rows.
    @discardableResult
    func run(_ sql: StaticString, _ values: SQLiteValue...) throws(StoreError) -> Int {
        let statement = try prepare(sql, values)
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_DONE else { throw error() }
        return Int(sqlite3_changes(handle))
    }

    /// Returns the rows of a query as `read` converts them, without the rows for which `read` returns nil.
    func query<Row>(
        _ sql: StaticString, _ values: SQLiteValue..., read: (SQLiteRow) throws(StoreError) -> Row?
    ) throws(StoreError) -> [Row] {
        let statement = try prepare(sql, values)
        defer { sqlite3_reset(statement) }
        var rows: [Row] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: if let row = try read(SQLiteRow(statement)) { rows.append(row) }
            case SQLITE_DONE: return rows
            default: throw error()
            }
        }
    }

    /// The number of the row that was inserted last.
    var lastNumber: Int64 { sqlite3_last_insert_rowid(handle) }

    private func prepare(_ sql: StaticString, _ values: [SQLiteValue]) throws(StoreError) -> OpaquePointer {
        if sqlite3_get_autocommit(handle) != 0 { transactions += 1 }
        let statement: OpaquePointer
        if let known = statements[sql.utf8Start] {
            statement = known
        } else {
            var prepared: OpaquePointer?
            let code = sql.withUTF8Buffer { text in
                sqlite3_prepare_v3(
                    handle, UnsafeRawPointer(text.baseAddress!).assumingMemoryBound(to: CChar.self),
                    Int32(text.count), UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
            }
            guard code == SQLITE_OK, let prepared else { throw error() }
            statements[sql.utf8Start] = prepared
            statement = prepared
        }
        for (index, value) in values.enumerated() {
            guard value.bind(to: statement, at: Int32(index + 1)) == SQLITE_OK else { throw error() }
        }
        return statement
    }

    private func error() -> StoreError { StoreError(.failed, "SQLite: " + String(cString: sqlite3_errmsg(handle))) }
}

enum SQLiteValue {
    case integer(Int64?)
    /// Bytes of blobs and also of identifiers: SQLite compares blobs byte by byte, and a user id may hold U+0000.
    case blob([UInt8])

    static func text(_ text: String) -> SQLiteValue { .blob(Array(text.utf8)) }

    /// With this destructor, SQLite copies the bytes before the call returns.
    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    fileprivate func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch self {
        case .integer(let value?): sqlite3_bind_int64(statement, index, value)
        case .integer(nil): sqlite3_bind_null(statement, index)
        // An empty array has no base address, and a null pointer would bind null.
        case .blob(let bytes) where bytes.isEmpty: sqlite3_bind_zeroblob(statement, index, 0)
        case .blob(let bytes): sqlite3_bind_blob(statement, index, bytes, Int32(bytes.count), Self.transient)
        }
    }
}

/// The current row of a statement.
struct SQLiteRow {
    private let statement: OpaquePointer

    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    /// Passes the bytes of a column to `body` without a copy. The bytes are valid only while the statement stands on
    /// the row.
    func read<Result>(_ column: Int32, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        let start = sqlite3_column_blob(statement, column)
        let count = Int(sqlite3_column_bytes(statement, column))
        return UnsafeRawBufferPointer(start: start, count: count).withMemoryRebound(to: UInt8.self, body)
    }

    func bytes(_ column: Int32) -> [UInt8] { read(column) { Array($0) } }

    func text(_ column: Int32) -> String { read(column) { String(decoding: $0, as: UTF8.self) } }

    /// Returns nil for null and for the empty text.
    func optionalText(_ column: Int32) -> String? {
        let text = text(column)
        return text.isEmpty ? nil : text
    }
}
