import Delivery
import Foundation
import Testing

@Suite struct ByteOrderMarkTests {
    @Test func aByteOrderMarkIsPassedOver() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "bellwire-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: url) }
        try Data([0xEF, 0xBB, 0xBF] + Array("{}".utf8)).write(to: url)
        #expect(try readFile(url.path(), maxBytes: 100) == Array("{}".utf8))
        try Data([0xEF, 0xBB]).write(to: url)
        #expect(try readFile(url.path(), maxBytes: 100) == [0xEF, 0xBB])
    }
}
