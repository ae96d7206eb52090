import CSQLite
import CallStore
import Glibc

/// Copies the file of a store while coordinators use the file: the copy shows one moment.
package enum SQLiteBackup {
    /// Copies the store into a new file, which only its owner may read. Returns the head of the backup and the number
    /// of records.
    package static func copy(_ path: String, to copy: String) throws(StoreError) -> (BackupHead, records: Int) {
        let source = try SQLiteDatabase(path: path, patience: .visitor)
        guard try SQLiteSchema.isComplete(source, "sqlite:\(path)") else {
            throw StoreError(.foreign, "sqlite:\(path) has no data of Bellwire")
        }
        // A new file: the name may be in a directory that others may write to.
        let made = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard made >= 0 else { throw StoreError(.failed, "\(copy): \(String(cString: strerror(errno)))") }
        close(made)
        let target = try SQLiteDatabase(path: copy, patience: .visitor)
        try source.copy(to: target)
        return (try head(target), Int(try target.query("SELECT count(*) FROM calls") { $0.integer(0) }.first ?? 0))
    }

    /// Checks a file that was restored from a backup: its pages and its format.
    package static func check(_ path: String) throws(StoreError) {
        let database = try SQLiteDatabase(path: path, patience: .visitor)
        guard try SQLiteSchema.isComplete(database, "the backup") else {
            throw StoreError(.foreign, "the backup has no data of Bellwire")
        }
        let faults = try database.query("PRAGMA quick_check(1)") { $0.text(0) }
        guard faults == ["ok"] else {
            throw StoreError(.failed, "the backup is damaged: \(faults.joined(separator: "; "))")
        }
    }

    private static func head(_ database: SQLiteDatabase) throws(StoreError) -> BackupHead {
        BackupHead(
            kind: .sqlite, format: SQLiteSchema.format.number,
            topicRoot: try database.query("SELECT topic_root FROM deployment") { $0.text(0) }.first)
    }
}
