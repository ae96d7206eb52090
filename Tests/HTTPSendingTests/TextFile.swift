import Glibc
import Testing

/// A file that exists as long as this object.
final class TextFile {
    let path: String

    init(_ text: String) throws {
        var name = Array("/tmp/bellwire-text-XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        path = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let bytes = Array(text.utf8)
        try #require(write(descriptor, bytes, bytes.count) == bytes.count)
    }

    deinit { unlink(path) }
}
