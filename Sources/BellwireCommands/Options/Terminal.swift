import Glibc

/// Writes a line to standard error at once, past any buffer.
func writeError(_ line: String) { writeLine(line, to: STDERR_FILENO) }

/// Writes a line to standard output at once, so that a reader at the other end of a pipe sees the line in time.
package func writeOutput(_ line: String) { writeLine(line, to: STDOUT_FILENO) }

private func writeLine(_ line: String, to descriptor: Int32) {
    var bytes = Array(line.utf8)[...]
    bytes.append(UInt8(ascii: "\n"))
    while !bytes.isEmpty {
        let written = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if written < 0 && errno == EINTR { continue }
        guard written > 0 else { return }
        bytes = bytes.dropFirst(written)
    }
}
