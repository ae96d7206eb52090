import Synchronization

@testable import HTTPServing

/// Where requests wait until a test answers them.
final class Desk: Sendable {
    private let exchanges = Mutex<[HTTPExchange]>([])

    func put(_ exchange: HTTPExchange) { exchanges.withLock { $0.append(exchange) } }

    /// Those that have come, when there are so many.
    func take(_ count: Int) throws -> [HTTPExchange] {
        try eventually { exchanges.withLock { $0.count >= count } }
        return exchanges.withLock { exchanges in
            defer { exchanges.removeFirst(count) }
            return Array(exchanges[..<count])
        }
    }
}

extension HTTPServer {
    /// At a free port of 127.0.0.1.
    static func local(
        _ settings: HTTPServerSettings = HTTPServerSettings(),
        handle: @escaping @Sendable (HTTPExchange) -> HTTPResponse? = { .echo($0) }
    ) throws -> HTTPServer { try HTTPServer(host: "127.0.0.1", port: 0, settings: settings, handle: handle) }

    /// Answers nothing by itself.
    static func waiting(at desk: Desk, _ settings: HTTPServerSettings = HTTPServerSettings()) throws -> HTTPServer {
        try local(settings) { exchange in
            desk.put(exchange)
            return nil
        }
    }
}

extension HTTPServerSettings {
    static func with(_ change: (inout HTTPServerSettings) -> Void) -> HTTPServerSettings {
        var settings = HTTPServerSettings()
        change(&settings)
        return settings
    }

    /// Clients have little time.
    static let hasty = HTTPServerSettings.with { $0.longestTime = 300 }
}

extension HTTPResponse {
    /// Says what was understood.
    static func echo(_ exchange: HTTPExchange) -> HTTPResponse {
        let body = String(decoding: exchange.body, as: UTF8.self)
        return .text(200, "\(exchange.method) \(exchange.path) ?\(exchange.query) \(body)")
    }
}
