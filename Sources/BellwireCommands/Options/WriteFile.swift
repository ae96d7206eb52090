import Glibc

/// Replaces a file as a whole: a concurrent reader finds either the old or the new file. With `isNew`, the function
/// fails if the file exists, even if another process creates the file at the same time.
func writeFile(_ bytes: [UInt8], to path: String, mode: mode_t, isNew: Bool = false) throws {
    func failure(_ action: String) -> UsageError {
        UsageError("bellwire: \(path): \(action): \(String(cString: strerror(errno)))")
    }
    // A new file has no readers yet, so a temporary name is not needed.
    let temporary = isNew ? path : "\(path).\(getpid())"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw failure("cannot be written") }
    // `fchmod` sets the whole mode, including the bits that the process's mask removed in `open`.
    let isWritten =
        fchmod(descriptor, mode) == 0 && write(descriptor, bytes, bytes.count) == bytes.count && fsync(descriptor) == 0
    close(descriptor)
    guard isWritten, isNew || rename(temporary, path) == 0 else {
        defer { unlink(temporary) }
        throw failure("cannot be written")
    }
}
