import CMicrohttpd
import Glibc

/// microhttpd, with its own thread.
final class Daemon: @unchecked Sendable {
    // Sendable: after the start, all members belong to microhttpd's thread, until `stop` has waited for its end.

    private let server: RequestServer
    private let problem: UnsafeMutablePointer<bellwire_http_problem>
    private var daemon: OpaquePointer?

    init(_ server: RequestServer) {
        self.server = server
        problem = .allocate(capacity: 1)
        problem.initialize(to: bellwire_http_problem())
    }

    deinit { problem.deallocate() }

    /// Starts the server. The socket belongs to the daemon from now on, even after a failure. Returns the reason of a
    /// failure; nil after a start.
    func start(_ socket: Int32, _ settings: HTTPServerSettings) -> String? {
        let context = Unmanaged.passUnretained(server).toOpaque()
        var callbacks = bellwire_http_callbacks(
            context: context, accept: accept, connection: connectionChanged, request: requestBegan, serve: serve,
            completed: requestCompleted)
        // Larger than needed by 1: at its own limit microhttpd would leave further connections waiting.
        let mostConnections = UInt32(settings.mostSockets + 1)
        daemon = bellwire_http_start(
            socket, mostConnections, settings.longestHead, server.certificate == nil ? nil : chooseCertificate,
            &callbacks, problem)
        // After a failure, microhttpd has closed the socket or not, depending on the reason. A second close would be
        // worse than none.
        guard daemon == nil else { return nil }
        let reason = String(cString: bellwire_http_problem_text(problem)).split(separator: "\n").joined()
        return reason.isEmpty ? "microhttpd does not start" : reason
    }

    /// Ends all connections, and waits until they have ended. No connection may be suspended.
    func stop() {
        MHD_stop_daemon(daemon)
        daemon = nil
    }
}

// C callbacks are file-private functions, because a closure would inherit the actor isolation of its context.
// microhttpd makes the calls on its thread; the server outlives that thread.

private func server(_ context: UnsafeMutableRawPointer?) -> RequestServer {
    guard let context else { preconditionFailure("microhttpd always passes the context") }
    return Unmanaged<RequestServer>.fromOpaque(context).takeUnretainedValue()
}

private func handle(_ connection: OpaquePointer?) -> ConnectionHandle {
    guard let connection else { preconditionFailure("microhttpd always passes the connection") }
    return ConnectionHandle(pointer: connection)
}

private func accept(
    _ context: UnsafeMutableRawPointer?, _ address: UnsafePointer<sockaddr>?, _: socklen_t
) -> MHD_Result { bellwire_http_result(server(context).admit(ClientAddress(address))) }

private func connectionChanged(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_ConnectionNotificationCode
) { server(context).changed(handle(connection), hasStarted: bellwire_http_has_started(code)) }

/// Called before microhttpd parses the target. The application needs no returned pointer.
private func requestBegan(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ connection: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    guard let target else { return nil }
    server(context).begin(handle(connection), target: String(cString: target))
    bellwire_http_drop_query(target)
    return nil
}

private func serve(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ bytes: UnsafePointer<CChar>?,
    _ count: UnsafeMutablePointer<Int>?, _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let method, let version, let count else { return bellwire_http_result(false) }
    let body = UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : count.pointee)
    count.pointee = 0
    return bellwire_http_result(server(context).serve(handle(connection), method: method, version: version, body))
}

private func requestCompleted(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_RequestTerminationCode
) { server(context).complete(handle(connection), isComplete: bellwire_http_is_complete(code)) }
