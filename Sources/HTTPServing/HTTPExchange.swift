import CMicrohttpd
import Synchronization

/// A request, with the means to respond.
package final class HTTPExchange: Sendable {
    /// The method in the client's spelling, such as `GET`.
    package let method: String
    /// The path as the client sent it, percent-encoded, in printable ASCII: `/calls/a%2Fb`. `RequestPath` parses the
    /// path.
    package let path: String
    /// The text after the first question mark, as the client sent it; empty without a question mark. `RequestQuery`
    /// parses the query.
    package let query: String
    /// The body, at most as long as the settings allow.
    package let body: [UInt8]
    private let fields: [RequestHead.Field]

    private enum Stage {
        /// The handler is working on the request.
        case serving
        case suspended(ConnectionHandle)
        /// microhttpd has not received the response yet.
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

    /// Returns the values of all headers with this name, regardless of case, in their order. Bytes that are not UTF-8
    /// are replaced (U+FFFD).
    package func header(_ name: String) -> [String] {
        let name = name.lowercased()
        return fields.filter { $0.name == name }.map { field in
            String(field.value.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
        }
    }

    /// Responds to the request. May be called on any thread; never waits. Only the first response counts. If none comes
    /// within the time of the settings, the client gets a 503.
    package func respond(_ response: HTTPResponse) {
        let counts = stage.withLock { stage in
            switch stage {
            case .serving: stage = .answered(response)
            case .suspended(let connection):
                stage = .answered(response)
                // `resume` is called under the lock: the thread that stops the server calls `respond` too, and thereby
                // waits until microhttpd knows of the resumption. Stopping microhttpd with a suspended connection would
                // abort the process.
                connection.resume()
            case .answered, .over: return false
            }
            return true
        }
        if !counts { response.stream?.finish() }
    }

    // MARK: For microhttpd's thread

    /// Returns the response, once. Without a response, the connection is suspended until a response comes.
    func takeResponse(suspending connection: ConnectionHandle) -> HTTPResponse? {
        stage.withLock { stage in
            switch stage {
            case .serving:
                // This call is under the lock, so that no thread resumes the connection before the suspension.
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

    /// Notes that the connection has ended, so that no response is needed any more.
    func end() {
        let unsent: HTTPResponse? = stage.withLock { stage in
            defer { stage = .over }
            guard case .answered(let response) = stage else { return nil }
            return response
        }
        unsent?.stream?.finish()
    }
}

/// A connection of microhttpd.
struct ConnectionHandle: Hashable, @unchecked Sendable {
    // Sendable: any thread may resume a suspended connection. All other calls belong to microhttpd's thread.

    let pointer: OpaquePointer

    func suspend() { MHD_suspend_connection(pointer) }
    func resume() { MHD_resume_connection(pointer) }

    /// Whether the client's host has acknowledged all bytes that the kernel was given. Only for a suspended connection.
    var hasNothingUnacknowledged: Bool { bellwire_http_unacknowledged(pointer) == 0 }
}
