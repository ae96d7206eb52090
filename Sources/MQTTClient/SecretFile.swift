import Glibc

/// Returns the first line of a small file with a password or a token, or nil when there is no such line.
package func readSecret(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 16 * 1024)
    let count = read(descriptor, &bytes, bytes.count)
    guard count > 0 else { return nil }
    var text = bytes.prefix(count)
    // Some editors put a byte order mark before UTF-8.
    if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
    let line = text.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    guard !line.isEmpty else { return nil }
    return String(validating: line, as: UTF8.self)
}
