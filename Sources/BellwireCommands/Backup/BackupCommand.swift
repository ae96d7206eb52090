import CallStore
import Delivery
import Glibc
import RedisStore
import SQLiteStore
import Support

/// `bellwire backup`: copies a store into a file while coordinators use the store (docs/operations.md, Backup and
/// restore).
package enum BackupCommand {
    private static let command = Command(
        name: "backup", arguments: "",
        summary: """
            Copies all data of a store into a new file that only its owner may read, while coordinators serve calls. Of
            SQLite the backup shows one moment; of Redis, each call with everything that was answered before the backup
            began.
            """,
        options: StoreOptions.visitedByCommand + [
            Option("out", "FILE", "the new file; - is the standard output; required")
        ], positionals: 0...0)

    package static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let path = try arguments.required("out", "a file") { $0.isEmpty ? nil : $0 }
        let (address, prefix) = try StoreOptions.backedUp(arguments)
        do throws(StoreError) {
            let writer = try BackupFileWriter(path)
            let records =
                switch address {
                case .memory: throw StoreError(.failed, "a store in memory cannot be backed up")
                case .sqlite(let file): try copy(file, beside: path, writer)
                case .redis(let redis): try copy(redis, prefix, writer)
                }
            try writer.finish()
            writeError("\(path): \(writer.bytes) bytes; \(records) calls and messages of \(address)")
        } catch {
            throw UsageError("bellwire backup: \(error)")
        }
    }

    private static func write(_ head: BackupHead, _ writer: BackupFileWriter) throws(StoreError) {
        try writer.write(head, version: bellwireVersion, at: timestamp(SystemClock.wall.milliseconds))
    }

    /// Writes a copy of the file, which lies beside the backup until the backup is complete.
    private static func copy(_ file: String, beside path: String, _ writer: BackupFileWriter) throws(StoreError) -> Int
    {
        guard access(file, R_OK | W_OK) == 0 else { throw BackupFile.failure(file) }
        let temporary = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let copy = (path == "-" ? "\(temporary)/bellwire-backup" : path) + ".sqlite-\(getpid())"
        defer { for end in ["", "-wal", "-shm", "-journal"] { unlink(copy + end) } }
        let (head, records) = try SQLiteBackup.copy(file, to: copy)
        try write(head, writer)
        let descriptor = open(copy, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw BackupFile.failure(copy) }
        defer { close(descriptor) }
        var chunk = [UInt8](repeating: 0, count: BackupFile.chunk)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            guard count > 0 || count < 0 && errno == EINTR else {
                guard count == 0 else { throw BackupFile.failure(copy) }
                return records
            }
            if count > 0 { try writer.write([Array(chunk[..<count])]) }
        }
    }

    private static func copy(_ address: RedisAddress, _ prefix: String, _ writer: BackupFileWriter) throws(StoreError)
        -> Int
    {
        let backup = try RedisBackup(address, prefix: prefix)
        try write(backup.head, writer)
        return try backup.read { entry throws(StoreError) in try writer.write(entry) }
    }
}
