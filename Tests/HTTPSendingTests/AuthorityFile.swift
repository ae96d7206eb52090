import Glibc
import Testing

/// Several files with certificates as one.
final class AuthorityFile {
    let path: String

    init(_ files: [String]) throws {
        var name = Array("/tmp/bellwire-authorities-XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        try #require(descriptor >= 0)
        close(descriptor)
        path = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        try #require(system("cat \(files.joined(separator: " ")) >\(path)") == 0)
    }

    deinit { unlink(path) }
}
