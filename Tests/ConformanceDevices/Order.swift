import Foundation

/// A line of the suite.
struct Order: Decodable, Sendable {
    enum Kind: String, Decodable, Sendable {
        case begin, request, signal, find, end, sync
    }

    struct Settings: Decodable, Sendable {
        let url: String
        let user: String
        let device: String
        /// In seconds.
        let keepAlive: Int
        let topicRoot: String
        let qos: Int
        let token: String?
    }

    let order: Kind
    /// The number of the device.
    let number: Int
    let settings: Settings?
    /// The request or the signal in the words of the test.
    let text: String?
    let token: Int?

    init(_ line: String) throws { self = try JSONDecoder().decode(Order.self, from: Data(line.utf8)) }
}

/// Lines for the suite, each whole.
final class Reporter: Sendable {
    private let lock = NSLock()

    func report(_ fields: [String: Any]) {
        guard var line = try? JSONSerialization.data(withJSONObject: fields) else { fatalError("no JSON: \(fields)") }
        line.append(UInt8(ascii: "\n"))
        lock.withLock { FileHandle.standardOutput.write(line) }
    }
}
