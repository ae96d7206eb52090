import CMicrohttpd
import Synchronization

/// One request, and the way to answer it.
package final class HTTPExchange: Sendable {
    /// As the client wrote it: `GET`.
    package let method: String
    /// As the client wrote it, with percent signs, in printable ASCII: `/calls/a%2Fb`. `RequestPath` reads it.
    package let path: String
    /// What stands behind the first question mark, as the client wrote it; empty when there is none. `RequestQuery` reads it.
    package let query: String
    /// At most as long as the settings say.
    package let body: [UInt8]
    private let fields: [RequestHead.Field]

    private enum Stage {
        /// The handler is looking at it.
        case serving
        case suspended(ConnectionHandle)
        /// Not yet given to microhttpd.
        case answered(HTTPResponse)
        case over
    }

    private let stage = Mutex(Stage.serving)

    init(_ head: RequestHead, body: [UInt8]) {
        method = head.method
        path = head.path
        query = head.query
        fields = head.fields
        self.body = body
    }

    /// The values of all headers of this name, in whatever case, in their order. Bytes that are not UTF-8 are replaced (U+FFFD).
    package func header(_ name: String) -> [String] {
        let name = name.lowercased()
        return fields.filter { $0.name == name }.map { field in
            String(field.value.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
        }
    }

    /// Answers the request, for any thread; it never waits. Only the first answer counts. There must be one within the settings' time,
    /// or the client is answered 503.
    package func respond(_ response: HTTPResponse) {
        let counts = stage.withLock { stage in
            switch stage {
            case .serving: stage = .answered(response)
            case .suspended(let connection):
                stage = .answered(response)
                // Under the lock: who closes the connection, or stops the server, waits here until microhttpd has been told.
                connection.resume()
            case .answered, .over: return false
            }
            return true
        }
        if !counts { response.stream?.finish() }
    }

    // MARK: For microhttpd's thread

    /// The answer, once. Without one the connection is suspended until there is.
    func takeResponse(suspending connection: ConnectionHandle) -> HTTPResponse? {
        stage.withLock { stage in
            switch stage {
            case .serving:
                // Under the lock: nobody can resume it before it is suspended.
                connection.suspend()
                stage = .suspended(connection)
                return nil
            case .answered(let response):
                stage = .over
                return response
            case .suspended, .over: return nil
            }
        }
    }

    /// There is nobody to answer any more.
    func end() {
        let unsent: HTTPResponse? = stage.withLock { stage in
            defer { stage = .over }
            guard case .answered(let response) = stage else { return nil }
            return response
        }
        unsent?.stream?.finish()
    }
}

/// microhttpd's connection.
struct ConnectionHandle: Hashable, @unchecked Sendable {
    // Sendable: it may be resumed by any thread while it is suspended. All else is for microhttpd's thread.

    let pointer: OpaquePointer

    func suspend() { MHD_suspend_connection(pointer) }
    func resume() { MHD_resume_connection(pointer) }

    /// Whether the client's host has acknowledged all that the kernel was given. Only for a connection that is suspended.
    var hasNothingUnacknowledged: Bool { bellwire_http_unacknowledged(pointer) == 0 }
}
