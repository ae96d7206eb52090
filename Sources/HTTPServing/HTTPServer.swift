import Dispatch
import Glibc
import Support
import Synchronization

/// A server of HTTP/1.1, or of HTTPS.
///
/// Each client counts as an attacker until proven otherwise: connections, bytes and time are bounded
/// (`HTTPServerSettings`), and input that is not clearly a single request is refused. A thread reads requests, has the
/// requests handled, and sends responses; another thread ends the connections of late clients.
package final class HTTPServer: Sendable {
    /// The reason why the server cannot start, with its address: `127.0.0.1:80: Address already in use`.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Running {
        let daemon: Daemon
        let sweeper: pthread_t
        /// Signalled to end the sweeper.
        let end: DispatchSemaphore
    }

    /// The port of the listening socket, also when the server was started with port 0.
    package let port: Int
    private let table: ConnectionTable
    private let settings: HTTPServerSettings
    /// Nil for plain HTTP.
    private let certificate: HTTPSCertificate?
    /// Nil after the server has stopped.
    private let running: Mutex<Running?>

    /// The time, in milliseconds, that responses under way get when the server stops.
    private static let patience = 1_000

    /// - Parameters:
    ///   - host: a name or an address; the first address of a name counts.
    ///   - port: 0 for any free port.
    ///   - handle: takes each whole request on the server's thread, while other requests wait. Returns the response, or
    ///     nil when `HTTPExchange.respond` will be called later, on any thread. Must not stop the server.
    package init(
        host: String, port: Int, settings: HTTPServerSettings = HTTPServerSettings(),
        handle: @escaping @Sendable (HTTPExchange) -> HTTPResponse?
    ) throws(SetupError) {
        func problem(_ reason: String) -> SetupError { SetupError(description: "\(host):\(port): \(reason)") }
        let certificate: HTTPSCertificate?
        do throws(HTTPSCertificate.Problem) {
            certificate = try settings.tls.map { tls throws(HTTPSCertificate.Problem) in try HTTPSCertificate(tls) }
        } catch {
            throw problem("no HTTPS with this certificate and key: \(error.reason)")
        }
        let socket: ListeningSocket
        do throws(ListeningSocket.Problem) {
            socket = try ListeningSocket(host: host, port: port)
        } catch {
            throw problem(error.reason)
        }
        let table = ConnectionTable(settings)
        let daemon = Daemon(RequestServer(table, settings, certificate, handle))
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
            throw problem("no thread for the deadlines of connections")
        }
        self.port = socket.port
        self.table = table
        self.settings = settings
        self.certificate = certificate
        running = Mutex(Running(daemon: daemon, sweeper: sweeper, end: end))
    }

    deinit { stop() }

    package var counts: HTTPServerCounts { table.counts }

    /// Replaces the certificate of HTTPS at all these servers, for new handshakes; connections that are open keep
    /// theirs. Returns the reason why the certificate or its key cannot be used, so that the former certificate stays
    /// at all of them, or nil. Does nothing for plain HTTP.
    package static func replaceCertificate(_ tls: HTTPServerSettings.TLS, at servers: [HTTPServer]) -> String? {
        do throws(HTTPSCertificate.Problem) {
            // GnuTLS may use a private key in a single thread at a time, and each server has a thread.
            let loaded = try servers.map { _ throws(HTTPSCertificate.Problem) in try HTTPSCertificate.Loaded(tls) }
            for (server, loaded) in zip(servers, loaded) { server.certificate?.replace(with: loaded) }
            return nil
        } catch {
            return error.reason
        }
    }

    /// Answers 503 to all waiting requests, gives their clients a second to read the response, and ends all
    /// connections. No request is handled after the return. Must not be called on the server's thread.
    package func stop() {
        running.withLock { running in
            guard let stopping = running else { return }
            running = nil
            // Stopping microhttpd with a suspended connection would abort the process.
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
