import Glibc

/// Replaces a file as a whole: whoever reads it meanwhile finds the old one or the new one. `isNew`: only if there is none yet, also when somebody
/// else makes it at the same time.
func writeFile(_ bytes: [UInt8], to path: String, mode: mode_t, isNew: Bool = false) throws {
    func failure(_ action: String) -> UsageError {
        UsageError("bellwire: \(path): \(action): \(String(cString: strerror(errno)))")
    }
    // A file that is new nobody reads yet.
    let temporary = isNew ? path : "\(path).\(getpid())"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw failure("cannot be written") }
    // Whatever the process's mask takes away from a public file.
    let isWritten =
        fchmod(descriptor, mode) == 0 && write(descriptor, bytes, bytes.count) == bytes.count && fsync(descriptor) == 0
    close(descriptor)
    guard isWritten, isNew || rename(temporary, path) == 0 else {
        defer { unlink(temporary) }
        throw failure("cannot be written")
    }
}
