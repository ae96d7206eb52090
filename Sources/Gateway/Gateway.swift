import CallCore
import CallStore
import Glibc
import HTTPServing
import MQTTClient
import SignalingProtocol
import Support
import Synchronization

/// REST for backends (docs/backend.md), and what users of ZEGO Call ask (docs/migrate/zego-call-server.md): each request is judged by a coordinator, like any other; what only reads is read from the store.
///
/// Three threads: the HTTP server's understands requests and refuses what cannot be, one is an MQTT client, one reads the store. None waits
/// for another.
package final class Gateway: Sendable {
    package struct Settings: Sendable {
        package var host: String
        package var port: Int
        package var broker: BrokerAddress
        package var certificateAuthorityFile: String?
        /// Whom the broker takes for a server; read for each connection.
        package var tokenFile: String?
        /// The same as text.
        package var token: String?
        package var topics = Topics.standard
        /// 1 to 64 of `A-Z a-z 0-9 _ -`; no two gateways have the same.
        package var name: String
        package var lease: Milliseconds
        package var http = HTTPServerSettings()
        /// Served at `/`; nil for none.
        package var page: CallPage?

        package init(host: String, port: Int, broker: BrokerAddress, name: String, lease: Milliseconds) {
            self.host = host
            self.port = port
            self.broker = broker
            self.name = name
            self.lease = lease
            http.mostStreams = StreamDesk.Bounds.streams
        }
    }

    /// What it reads.
    package typealias Store = any RecordStore & TimelineStore & RegistrationStore

    /// There can be no gateway; the text says why.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    private let server: HTTPServer
    private let relayInbox: Inbox<Relay.Item>
    private let readerInbox: Inbox<Reader.Item>
    private let threads: Mutex<[pthread_t]>
    package var port: Int { server.port }

    /// `store`: the gateway's own from here on, in a thread of its own.
    package init(
        _ settings: Settings, _ store: sending Store, _ bearers: BearerCheck, _ status: GatewayStatus
    ) throws(SetupError) {
        guard let relayInbox = Inbox<Relay.Item>(most: OpenRequests.Bounds.requests),
            let readerInbox = Inbox<Reader.Item>(most: Reader.Bounds.waiting),
            let streams = StreamDesk(most: settings.http.mostStreams)
        else { throw SetupError(description: "no descriptors for a gateway") }
        self.relayInbox = relayInbox
        self.readerInbox = readerInbox
        var http = settings.http
        http.refuse = Problem.response
        http.isVital = { _, path in Route.isVital(path) }
        let ring = RingDesk(relayInbox)
        let handler = RequestHandler(bearers, relayInbox, readerInbox, ring, streams, settings.page, status)
        do throws(HTTPServer.SetupError) {
            server = try HTTPServer(
                host: settings.host, port: settings.port, settings: http, handle: handler.handle)
        } catch {
            throw SetupError(description: "--http \(error.description)")
        }
        handler.serve(server)
        let relay = Relay.Settings(
            broker: settings.broker, certificateAuthorityFile: settings.certificateAuthorityFile,
            tokenFile: settings.tokenFile, token: settings.token, topics: settings.topics, name: settings.name)
        let lease = settings.lease
        nonisolated(unsafe) let store = store
        threads = Mutex(
            [
                startThread { Relay(relay, relayInbox, streams, bearers, status).run() },
                startThread { Reader(store, lease: lease, readerInbox, relayInbox, ring, status).run() },
            ].compactMap(\.self))
        guard threads.withLock({ $0.count == 2 }) else {
            stop()
            throw SetupError(description: "no threads for a gateway")
        }
    }

    /// Answers `unavailable` to whoever waits, and ends; waits for that.
    package func stop() {
        relayInbox.stop()
        readerInbox.stop()
        threads.withLock { threads in
            for thread in threads { pthread_join(thread, nil) }
            threads = []
        }
        server.stop()
    }
}
