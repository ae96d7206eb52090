import CallCore
import CallStore
import Glibc
import HTTPServing
import MQTTClient
import SignalingProtocol
import Support
import Synchronization

/// The HTTP server for backends (REST, docs/backend.md) and for users of ZEGO Call (docs/migrate/zego-call-server.md).
/// A coordinator decides each request that changes the deployment, as for any device; requests that only read are
/// answered from the store.
///
/// A gateway has three threads: the HTTP server's thread parses requests and refuses invalid requests, the second
/// thread is an MQTT client, and the third reads the store. None waits for another. A listener for administrators has
/// an HTTP server of its own.
package final class Gateway: Sendable {
    package struct Settings: Sendable {
        package var host: String
        package var port: Int
        package var brokers: [BrokerAddress]
        package var certificateAuthorityFile: String?
        /// The file with the token of a server at the broker; read for each broker connection.
        package var tokenFile: String?
        /// The same token as text.
        package var token: String?
        package var topics = Topics.standard
        /// 1 to 64 of `A-Z a-z 0-9 _ -`, different for each gateway.
        package var name: String
        package var lease: Milliseconds
        package var http = HTTPServerSettings()
        /// The call page that is served at `/`; nil for none.
        package var page: CallPage?
        /// The address of a listener of its own for `/v1/admin` and the admin page; nil when the listener for backends
        /// serves them as well.
        package var admin: (host: String, port: Int)?

        package init(host: String, port: Int, brokers: [BrokerAddress], name: String, lease: Milliseconds) {
            self.host = host
            self.port = port
            self.brokers = brokers
            self.name = name
            self.lease = lease
            http.mostStreams = StreamDeskBounds.streams
        }

        /// The settings of the listener for administrators.
        fileprivate var adminHTTP: HTTPServerSettings {
            var admin = http
            admin.mostConnections = min(http.mostConnections, AdminBounds.connections)
            admin.mostStreams = 0
            return admin
        }

        /// The bound of the sockets of the listener for administrators; 0 without such a listener.
        package var adminSockets: Int { admin == nil ? 0 : adminHTTP.mostSockets }
    }

    /// The parts of the store that a gateway reads.
    package typealias Store = any RecordStore & BrokerStore & TimelineStore & RegistrationStore & AdminStore
        & OutboxStore

    /// The reason why the gateway cannot start.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    private let server: HTTPServer
    /// The listener for administrators alone; nil when `server` serves them.
    private let adminServer: HTTPServer?
    private let relayInbox: Inbox<AskedRequest>
    private let readerInbox: Inbox<AskedQuestion>
    private let threads: Mutex<[pthread_t]>
    package var port: Int { server.port }
    /// The port of the listener for administrators; nil without a listener of their own.
    package var adminPort: Int? { adminServer?.port }

    /// - Parameter store: from now on only the reader's thread of this gateway uses the store.
    package init(
        _ settings: Settings, _ store: sending Store, _ bearers: BearerCheck, _ status: GatewayStatus
    ) throws(SetupError) {
        guard let relayInbox = Inbox<AskedRequest>(most: OpenRequestBounds.requests),
            let readerInbox = Inbox<AskedQuestion>(most: ReaderBounds.waiting),
            let streams = StreamDesk(most: settings.http.mostStreams)
        else { throw SetupError(description: "the process has no file descriptors left for a gateway") }
        self.relayInbox = relayInbox
        self.readerInbox = readerInbox
        var settings = settings
        settings.http.refuse = Problem.response
        settings.http.isVital = { _, path in Route.isVital(path) }
        let ring = RingDesk(relayInbox)
        let handler = RequestHandler(bearers, relayInbox, readerInbox, ring, streams, settings.page, status)
        let scope: ListenerScope = settings.admin == nil ? .everything : .allButAdmin
        do throws(HTTPServer.SetupError) {
            server = try HTTPServer(host: settings.host, port: settings.port, settings: settings.http) {
                handler.handle($0, scope)
            }
        } catch {
            throw SetupError(description: "--http \(error.description)")
        }
        do throws(HTTPServer.SetupError) {
            adminServer = try settings.admin.map { host, port throws(HTTPServer.SetupError) in
                try HTTPServer(host: host, port: port, settings: settings.adminHTTP) { handler.handle($0, .adminAlone) }
            }
        } catch {
            throw SetupError(description: "--admin-http \(error.description)")
        }
        handler.serve([server, adminServer].compactMap(\.self))
        let relay = Relay.Settings(
            brokers: settings.brokers, certificateAuthorityFile: settings.certificateAuthorityFile,
            tokenFile: settings.tokenFile, token: settings.token, topics: settings.topics, name: settings.name)
        let lease = settings.lease
        nonisolated(unsafe) let store = store
        threads = Mutex(
            [
                startThread { Relay(relay, relayInbox, streams, bearers, status).run() },
                startThread { Reader(store, lease: lease, readerInbox, relayInbox, ring, bearers, status).run() },
            ].compactMap(\.self))
        guard threads.withLock({ $0.count == 2 }) else {
            stop()
            throw SetupError(description: "no threads for a gateway")
        }
    }

    /// Replaces the certificate of HTTPS at both listeners, for new handshakes. Returns the reason why the certificate
    /// or its key cannot be used, or nil.
    package func replaceCertificate(_ tls: HTTPServerSettings.TLS) -> String? {
        HTTPServer.replaceCertificate(tls, at: [server, adminServer].compactMap(\.self))
    }

    /// Answers `unavailable` to all waiting requests, ends the threads, and waits until they have ended.
    package func stop() {
        relayInbox.stop()
        readerInbox.stop()
        threads.withLock { threads in
            for thread in threads { pthread_join(thread, nil) }
            threads = []
        }
        server.stop()
        adminServer?.stop()
    }
}
