import CMicrohttpd

/// Reads requests, has the requests handled, and sends the responses. Belongs to microhttpd's thread, and follows its
/// callbacks.
final class RequestServer {
    private let table: ConnectionTable
    private let settings: HTTPServerSettings
    private var longestBody: Int { settings.longestBody }
    private let handle: @Sendable (HTTPExchange) -> HTTPResponse?
    /// Nil for plain HTTP.
    let certificate: HTTPSCertificate?
    private var requests: [ConnectionHandle: IncomingRequest] = [:]

    init(
        _ table: ConnectionTable, _ settings: HTTPServerSettings, _ certificate: HTTPSCertificate?,
        _ handle: @escaping @Sendable (HTTPExchange) -> HTTPResponse?
    ) {
        self.table = table
        self.settings = settings
        self.certificate = certificate
        self.handle = handle
    }

    func admit(_ address: ClientAddress?) -> Bool { table.admit(address) }

    func changed(_ connection: ConnectionHandle, hasStarted: Bool) {
        if hasStarted {
            certificate?.opened(connection)
            table.opened(connection, bellwire_http_socket(connection.pointer))
        } else {
            table.closed(connection)
            certificate?.closed(connection)
        }
    }

    /// Called for the first line of a request.
    func begin(_ connection: ConnectionHandle, target: String) {
        requests[connection] = IncomingRequest(target: target)
        table.arrives(connection)
    }

    /// Called when the headers are complete, for each piece of the body, when the request is whole, and when a
    /// suspended connection was resumed. A result of false closes the connection.
    func serve(
        _ connection: ConnectionHandle, method: UnsafePointer<CChar>, version: UnsafePointer<CChar>,
        _ bytes: UnsafeRawBufferPointer
    ) -> Bool {
        guard let request = requests[connection] else { return false }
        guard let head = request.head else {
            let head = RequestHead(
                method: String(cString: method), target: request.target, version: String(cString: version),
                fields: fields(connection))
            request.head = head
            // After a response before the body, microhttpd reads no further, and closes the connection.
            return refusal(of: head, connection).map { send(settings.response($0), request, connection) } ?? true
        }
        if !bytes.isEmpty { return request.take(bytes, longestBody: longestBody) }
        let exchange = request.exchange ?? whole(request, head, connection)
        guard let response = exchange.takeResponse(suspending: connection) else { return true }
        request.stream = response.stream
        table.answer(connection, response.stream)
        return send(response, request, connection)
    }

    private func refusal(of head: RequestHead, _ connection: ConnectionHandle) -> HTTPRefusal? {
        if let refusal = head.refusal(longestBody: longestBody) { return refusal }
        let isVital = settings.isVital(head.method, head.path)
        return table.mayServe(connection, isVital: isVital) ? nil : .full
    }

    private func whole(_ request: IncomingRequest, _ head: RequestHead, _ connection: ConnectionHandle) -> HTTPExchange
    {
        let exchange = HTTPExchange(head, body: request.body)
        request.exchange = exchange
        if !table.begin(connection, exchange) {
            exchange.respond(settings.response(.stopping))
        } else if request.isTooLong {
            exchange.respond(settings.response(.tooLong))
        } else if let response = handle(exchange) {
            exchange.respond(response)
        }
        return exchange
    }

    /// Called when the request is answered, or its connection has ended.
    func complete(_ connection: ConnectionHandle, isComplete: Bool) {
        guard let request = requests.removeValue(forKey: connection) else { return }
        request.exchange?.end()
        request.stream?.finish()
        // microhttpd itself responds to input that is not HTTP, and never reports these responses as complete.
        let status = isComplete || !request.isAnswered ? bellwire_http_status(connection.pointer) : 0
        table.complete(connection, .init(status: Int(status)))
    }

    // MARK: To and from microhttpd

    private func fields(_ connection: ConnectionHandle) -> [RequestHead.Field] {
        var fields: [RequestHead.Field] = []
        withUnsafeMutablePointer(to: &fields) {
            bellwire_http_each_header(connection.pointer, addField, UnsafeMutableRawPointer($0))
        }
        return fields
    }

    private func send(_ response: HTTPResponse, _ request: IncomingRequest, _ connection: ConnectionHandle) -> Bool {
        request.isAnswered = true
        if let made = response.make(connection) { return queue(made, response.status, connection) }
        let other = HTTPResponse.text(500, "the response cannot be sent\n")
        return other.make(connection).map { queue($0, other.status, connection) } ?? false
    }

    private func queue(_ response: OpaquePointer, _ status: Int, _ connection: ConnectionHandle) -> Bool {
        defer { MHD_destroy_response(response) }
        return bellwire_http_is_fine(MHD_queue_response(connection.pointer, UInt32(status), response))
    }
}

extension HTTPResponse {
    /// Makes microhttpd's response; returns nil when microhttpd refuses a header.
    fileprivate func make(_ connection: ConnectionHandle) -> OpaquePointer? {
        guard let made = stream.map({ $0.make(connection) }) ?? whole else { return nil }
        let type = contentType.map { [Header("Content-Type", $0)] } ?? []
        for header in type + headers
        where !bellwire_http_is_fine(MHD_add_response_header(made, header.name, header.value)) {
            MHD_destroy_response(made)
            return nil
        }
        return made
    }

    private var whole: OpaquePointer? {
        body.withUnsafeBytes { bellwire_http_response($0.baseAddress, $0.count) }
    }
}

/// The context of a streaming response in microhttpd.
private final class StreamReader {
    let stream: HTTPStream
    let connection: ConnectionHandle

    init(_ stream: HTTPStream, _ connection: ConnectionHandle) {
        self.stream = stream
        self.connection = connection
    }
}

extension HTTPStream {
    fileprivate func make(_ connection: ConnectionHandle) -> OpaquePointer? {
        let reader = Unmanaged.passRetained(StreamReader(self, connection))
        guard let made = bellwire_http_stream(nextPiece, reader.toOpaque(), dropReader) else {
            reader.release()
            return nil
        }
        return made
    }
}

// C callbacks are file-private functions, because a closure would inherit the actor isolation of its context.
private func nextPiece(
    _ context: UnsafeMutableRawPointer?, _: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ most: Int
) -> Int {
    guard let context else { preconditionFailure("microhttpd always passes the context") }
    let reader = Unmanaged<StreamReader>.fromOpaque(context).takeUnretainedValue()
    let room = UnsafeMutableRawBufferPointer(start: buffer, count: most)
    switch reader.stream.take(into: room, suspending: reader.connection) {
    case .bytes(let count): return count
    case .none: return 0
    // MHD_CONTENT_READER_END_OF_STREAM and MHD_CONTENT_READER_END_WITH_ERROR.
    case .end: return -1
    case .broken: return -2
    }
}

private func dropReader(_ context: UnsafeMutableRawPointer?) {
    guard let context else { return }
    Unmanaged<StreamReader>.fromOpaque(context).release()
}

// A C callback is a file-private function, because a closure would inherit the actor isolation of its context.
private func addField(
    _ context: UnsafeMutableRawPointer?, _: MHD_ValueKind, _ name: UnsafePointer<CChar>?, _ nameCount: Int,
    _ value: UnsafePointer<CChar>?, _ valueCount: Int
) -> MHD_Result {
    guard let context, let name else { preconditionFailure("microhttpd always passes context and name") }
    func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
    let field = RequestHead.Field(name: text(name, nameCount).lowercased(), value: text(value, valueCount))
    context.assumingMemoryBound(to: [RequestHead.Field].self).pointee.append(field)
    return bellwire_http_result(true)
}
