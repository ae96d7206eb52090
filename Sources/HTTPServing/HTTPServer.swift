import Dispatch
import Glibc
import Support
import Synchronization

/// A server of HTTP/1.1, or of HTTPS.
///
/// Whoever can connect is an attacker until proven otherwise: connections, bytes and time are bounded (`HTTPServerSettings`), and what is
/// not clearly one request is none. One thread reads, has requests handled, and sends; another ends the connections of clients
/// that are late.
package final class HTTPServer: Sendable {
    /// There can be no server. Says where it was to listen, and what stands against it: `127.0.0.1:80: Address already in use`.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Running {
        let daemon: Daemon
        let sweeper: pthread_t
        /// Signalled when the sweeper is to end.
        let end: DispatchSemaphore
    }

    /// The port it listens on, also when port 0 asked for any.
    package let port: Int
    private let table: ConnectionTable
    private let settings: HTTPServerSettings
    /// Nil when it has stopped.
    private let running: Mutex<Running?>

    /// Milliseconds for responses that are on their way when the server stops.
    private static let patience = 1_000

    /// - Parameters:
    ///   - host: a name or an address; the first that a name has.
    ///   - port: 0 for any that is free.
    ///   - handle: is given each whole request, on the server's thread, on which everybody else waits meanwhile. It returns the response,
    ///     or nil: then somebody calls `HTTPExchange.respond` later, on whatever thread. It must not stop the server.
    package init(
        host: String, port: Int, settings: HTTPServerSettings = HTTPServerSettings(),
        handle: @escaping @Sendable (HTTPExchange) -> HTTPResponse?
    ) throws(SetupError) {
        func problem(_ reason: String) -> SetupError { SetupError(description: "\(host):\(port): \(reason)") }
        let socket: ListeningSocket
        do throws(ListeningSocket.Problem) {
            socket = try ListeningSocket(host: host, port: port)
        } catch {
            throw problem(error.reason)
        }
        let table = ConnectionTable(settings)
        let daemon = Daemon(RequestServer(table, settings, handle))
        if let reason = daemon.start(socket.descriptor, settings) { throw problem(reason) }
        let end = DispatchSemaphore(value: 0)
        let interval = Int(settings.sweepInterval)
        let sweeper = startThread {
            while end.wait(timeout: .now() + .milliseconds(interval)) == .timedOut {
                table.sweep().forEach { $0.respond(settings.response(.notInTime)) }
            }
        }
        guard let sweeper else {
            daemon.stop()
            throw problem("no thread to watch over its connections")
        }
        self.port = socket.port
        self.table = table
        self.settings = settings
        running = Mutex(Running(daemon: daemon, sweeper: sweeper, end: end))
    }

    deinit { stop() }

    package var counts: HTTPServerCounts { table.counts }

    /// Answers 503 to all requests that wait for an answer, gives their clients a second to read it, and ends all connections. Nothing is
    /// handled when it returns. Not for the thread that handles requests.
    package func stop() {
        running.withLock { running in
            guard let stopping = running else { return }
            running = nil
            // microhttpd ends the process when it is stopped with a suspended connection.
            let (waiting, streams) = table.stop()
            for exchange in waiting { exchange.respond(settings.response(.stopping)) }
            for stream in streams { stream.end() }
            table.waitUntilDone(milliseconds: Self.patience)
            stopping.end.signal()
            pthread_join(stopping.sweeper, nil)
            stopping.daemon.stop()
        }
    }
}
