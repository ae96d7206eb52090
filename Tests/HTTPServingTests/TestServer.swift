import Synchronization

@testable import HTTPServing

/// A desk where requests wait until a test answers them.
final class Desk: Sendable {
    private let exchanges = Mutex<[HTTPExchange]>([])

    func put(_ exchange: HTTPExchange) { exchanges.withLock { $0.append(exchange) } }

    /// Takes `count` requests, once so many have come.
    func take(_ count: Int) throws -> [HTTPExchange] {
        try eventually { exchanges.withLock { $0.count >= count } }
        return exchanges.withLock { exchanges in
            defer { exchanges.removeFirst(count) }
            return Array(exchanges[..<count])
        }
    }
}

extension HTTPServer {
    /// A server at a free port of 127.0.0.1.
    static func local(
        _ settings: HTTPServerSettings = HTTPServerSettings(),
        handle: @escaping @Sendable (HTTPExchange) -> HTTPResponse? = { .echo($0) }
    ) throws -> HTTPServer { try HTTPServer(host: "127.0.0.1", port: 0, settings: settings, handle: handle) }

    /// A server that answers nothing by itself.
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

    /// Settings that give clients little time.
    static let hasty = HTTPServerSettings.with { $0.longestTime = 300 }
}

extension HTTPResponse {
    /// A response that repeats the request as the server understood it.
    static func echo(_ exchange: HTTPExchange) -> HTTPResponse {
        let body = String(decoding: exchange.body, as: UTF8.self)
        return .text(200, "\(exchange.method) \(exchange.path) ?\(exchange.query) \(body)")
    }
}
