import Foundation

/// A directory of a test's own, which is removed with this object.
package final class TemporaryDirectory {
    package let path: String

    package init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "bellwire-\(UUID().uuidString)")
        path = url.path()
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Returns the path of the file.
    @discardableResult
    package func write(_ name: String, _ content: [UInt8]) throws -> String {
        let file = "\(path)/\(name)"
        try Data(content).write(to: URL(filePath: file))
        return file
    }

    @discardableResult
    package func write(_ name: String, _ content: String) throws -> String { try write(name, Array(content.utf8)) }
}
