import CallStore
import Glibc
import RedisStore
import SQLiteStore

/// `bellwire restore`: writes a backup into an empty store (docs/operations.md, Backup and restore).
package enum RestoreCommand {
    private static let command = Command(
        name: "restore", arguments: "FILE",
        summary: """
            Writes a backup into an empty store of the same kind: a new SQLite file, or a Redis without keys of Bellwire
            under the prefix. No coordinator or gateway may run meanwhile. The account of Redis needs +restore. A damaged
            backup is refused before anything is written. FILE - is the standard input.
            """,
        options: StoreOptions.visitedByCommand, positionals: 1...1)

    package static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let (address, prefix) = try StoreOptions.backedUp(arguments)
        let path = arguments.positionals[0]
        do throws(StoreError) {
            if case .sqlite(let file) = address { try refuseUsed(file) }
            let backup = try BackupFileReader(path)
            switch address {
            case .memory: throw StoreError(.failed, "a store in memory cannot be restored")
            case .sqlite(let file): try restore(backup, into: file)
            case .redis(let redis):
                var restore = try RedisRestore(redis, prefix: prefix, backup.head)
                try restore.begin()
                try backup.read { entry throws(StoreError) in try restore.write(entry) }
                try restore.finish(backup.head)
            }
            writeError("\(address): restored from \(path)")
        } catch {
            throw UsageError("bellwire restore: \(error)")
        }
    }

    /// Throws when the file of the store is there. An old log beside a new file would be taken for the new file's.
    private static func refuseUsed(_ file: String) throws(StoreError) {
        for name in [file, file + "-wal"] {
            var status = stat()
            guard stat(name, &status) == 0, status.st_size > 0 else { continue }
            throw StoreError(
                .foreign,
                """
                sqlite:\(file) is not empty: \(name) is there. Nothing in it was changed. Stop the coordinators, and move \
                the file, its -wal and its -shm away
                """)
        }
    }

    /// Restores into a file beside the store's, which gets the store's name when the file is complete and checked.
    private static func restore(_ backup: BackupFileReader, into file: String) throws(StoreError) {
        guard backup.head.kind == .sqlite else {
            throw StoreError(.foreign, "a backup of Redis cannot be restored into sqlite:\(file)")
        }
        let temporary = "\(file).restore-\(getpid())"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw BackupFile.failure(file) }
        var isOpen = true
        defer {
            if isOpen { close(descriptor) }
            for end in ["", "-wal", "-shm"] { unlink(temporary + end) }
        }
        try backup.read { entry throws(StoreError) in
            for field in entry {
                var rest = field[...]
                while !rest.isEmpty {
                    let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
                    guard count > 0 || errno == EINTR else { throw BackupFile.failure(file) }
                    rest = rest.dropFirst(max(0, count))
                }
            }
        }
        let isWritten = fsync(descriptor) == 0
        isOpen = false
        guard close(descriptor) == 0, isWritten else { throw BackupFile.failure(file) }
        try SQLiteBackup.check(temporary)
        // An empty file may be there. `link` fails when another process made the file meanwhile.
        var status = stat()
        if stat(file, &status) == 0, status.st_size == 0 { unlink(file) }
        guard link(temporary, file) == 0 else { throw BackupFile.failure(file) }
    }
}
