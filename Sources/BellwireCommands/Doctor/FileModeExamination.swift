import Glibc

/// The examination of the mode of SQLite's file: the file holds push tokens and the calls of users.
enum FileModeExamination {
    /// Nil without such a file.
    static func check(_ path: String) -> Check? {
        var found = stat()
        guard stat(path, &found) == 0, found.st_mode & S_IFMT == S_IFREG else { return nil }
        let mode = String(found.st_mode & 0o777, radix: 8)
        guard found.st_mode & 0o077 != 0 else { return .ok("file-mode", "only the owner may read \(path) (\(mode))") }
        return .warn("file-mode", "other users may read or write \(path) (\(mode))", mend: "chmod 600 \(path)*")
    }
}
