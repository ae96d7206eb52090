import BrokerAuth
import CMosquittoBroker
import Glibc
import SignalingProtocol
import Support
import Tokens

/// The plugin for mosquitto: its options, its events, and the actions at the broker. `BrokerAuth` makes the decisions
/// and gives the reasons. All code runs on the broker's single thread.
final class Plugin {
    /// The bound on log lines per second for clients that are refused or disconnected; further clients are counted.
    private static let reportsPerSecond = 10

    /// mosquitto's handle of the plugin.
    let identifier: OpaquePointer?
    private let options: PluginOptions
    private var auth: BrokerAuth
    private var reports = (second: Int64(0), count: 0)
    private var hasReportedHiddenSocket = false

    init(_ identifier: OpaquePointer?, _ list: UnsafeBufferPointer<mosquitto_opt>) throws {
        self.identifier = identifier
        options = try PluginOptions(list)
        auth = BrokerAuth(
            verifier: TokenVerifier(
                keys: try KeySet(file: options.keys), issuer: options.issuer, audience: options.audience,
                longestLife: options.longestTokenLife),
            topics: options.topics, coordinatorName: options.coordinatorName, limits: options.limits)
        // The broker's memory holds tokens, and with HS256 also the key; a core dump must not write these to a disk.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        log(MOSQ_LOG_NOTICE, "tokens are checked by \(describe(auth.verifier.keys))")
        warnOfUnusable(auth.verifier.keys)
    }

    /// Reads the keys again, after SIGHUP. Keys that cannot be read change nothing: an old key is better than no
    /// broker.
    func reload() {
        do throws(TokenError) {
            let keys = try KeySet(file: options.keys)
            let ended = auth.replaceKeys(keys)
            log(
                MOSQ_LOG_NOTICE, "tokens are now checked by \(describe(keys)); \(ended) clients lose their access"
            )
            warnOfUnusable(keys)
        } catch {
            log(MOSQ_LOG_ERR, "the keys stay as they were: \(error)")
        }
    }

    func connect(_ event: mosquitto_evt_basic_auth) -> Int32 {
        let credentials = BrokerAuth.Credentials(
            clientID: mosquitto_client_id(event.client).map { String(cString: $0) } ?? "",
            username: event.username.map { String(cString: $0) }, password: event.password.map { String(cString: $0) },
            certificateName: certificateName(of: event.client),
            address: mosquitto_client_address(event.client).map { String(cString: $0) })
        do throws(Refusal) {
            let admission = try auth.connect(identify(event.client), credentials, now: SystemClock.wall.milliseconds)
            // With `allow_anonymous false`, mosquitto drops all clients without a name when the configuration is read
            // again.
            if event.username == nil { mosquitto_set_username(event.client, admission.identity.name) }
            // mosquitto would close the replaced connection without telling its client.
            if admission.replaces { mosquitto_kick_client_by_clientid(credentials.clientID, true) }
            return Int32(MOSQ_ERR_SUCCESS.rawValue)
        } catch {
            report(error, credentials, event.client)
            return Int32(MOSQ_ERR_AUTH.rawValue)
        }
    }

    func disconnected(_ event: mosquitto_evt_disconnect) { auth.disconnected(identify(event.client)) }

    func permits(_ event: mosquitto_evt_acl_check) -> Bool {
        let access: TopicAccess
        switch event.access {
        case MOSQ_ACL_WRITE: access = .publish(retain: event.retain)
        case MOSQ_ACL_READ: access = .receive
        case MOSQ_ACL_SUBSCRIBE: access = .subscribe
        case MOSQ_ACL_UNSUBSCRIBE: access = .unsubscribe
        default: return false
        }
        guard let topic = bytes(event.topic) else { return false }
        guard auth.permits(access, topic, identify(event.client), now: SystemClock.wall.milliseconds) else {
            return false
        }
        if event.access == MOSQ_ACL_WRITE {
            let payload = UnsafeBufferPointer(
                start: event.payload?.assumingMemoryBound(to: UInt8.self), count: Int(event.payloadlen))
            auth.published(topic, payload, by: identify(event.client))
        }
        guard event.access == MOSQ_ACL_READ else { return true }
        return auth.delivers(
            topic.count + Int(event.payloadlen), to: identify(event.client), now: { SystemClock.wall.milliseconds },
            socket: {
                guard let socket = ClientSocket(event.client) else {
                    reportHiddenSocket(event.client)
                    return nil
                }
                return socket.progress
            })
    }

    /// Logs once that the socket of a client cannot be found. Without the socket, the bound on slow readers cannot hold
    /// for this client.
    private func reportHiddenSocket(_ client: OpaquePointer?) {
        guard !hasReportedHiddenSocket else { return }
        hasReportedHiddenSocket = true
        let address = mosquitto_client_address(client).map { String(cString: $0) } ?? "unknown"
        log(
            MOSQ_LOG_WARNING,
            """
            the socket of the client at \(printable(address)) has another peer, as behind a proxy that passes addresses on (PROXY \
            protocol): at such listeners a client that reads slowly is not put off
            """)
    }

    /// Adds the time when the device's token ends to the device's presence message, for the service. The property comes
    /// after the device's own properties.
    func published(_ event: UnsafeMutablePointer<mosquitto_evt_message>) -> Int32 {
        guard let client = event.pointee.client, let topic = bytes(event.pointee.topic),
            let expiry = auth.tokenExpiry(ofPublisher: identify(client), topic: topic)
        else { return Int32(MOSQ_ERR_SUCCESS.rawValue) }
        return mosquitto_property_add_string_pair(
            &event.pointee.properties, Int32(MQTT_PROP_USER_PROPERTY.rawValue), UserProperty.tokenExpiresAt,
            "\(expiry)")
    }

    func tick() { perform(auth.takeDue(now: SystemClock.wall.milliseconds)) }

    private func perform(_ due: [BrokerAuth.Due]) {
        for action in due {
            switch action {
            case .tokenWillExpire(let clientID, let topic, let expiresAt):
                tell(clientID, topic, .tokenWillExpire(at: expiresAt))
            case .ended(let clientID, let topic, let reason):
                report("client \(printable(clientID)) is put off: \(reason.rawValue)", MOSQ_LOG_NOTICE)
                if let topic { tell(clientID, topic, .error(SignalingError(reason.code, reason.description))) }
            case .disconnect(let clientID, let connection, let reason):
                if reason == .slowReader { ClientSocket(OpaquePointer(bitPattern: connection))?.forget() }
                // The will is published, so that the service learns that the device is gone.
                mosquitto_kick_client_by_clientid(clientID, true)
            }
        }
    }

    /// Publishes to this client alone, whatever its subscriptions.
    private func tell(_ clientID: String, _ topic: String, _ message: DownMessage) {
        let payload = message.encoded()
        mosquitto_broker_publish_copy(clientID, topic, Int32(payload.count), payload, 1, false, nil)
    }

    private func report(_ refusal: Refusal, _ credentials: BrokerAuth.Credentials, _ client: OpaquePointer?) {
        report(
            "client \(printable(credentials.clientID)) at \(credentials.address ?? "unknown") is refused: \(refusal)",
            refusal.isWithoutCredentials ? MOSQ_LOG_INFO : MOSQ_LOG_NOTICE)
    }

    /// Logs a line for a client, at most `reportsPerSecond` lines in a second; further clients are counted.
    private func report(_ line: @autoclosure () -> String, _ level: Int32) {
        let second = SystemClock.wall.milliseconds / 1000
        if second != reports.second {
            if reports.count > Self.reportsPerSecond {
                log(MOSQ_LOG_NOTICE, "\(reports.count - Self.reportsPerSecond) more clients were refused or put off")
            }
            reports = (second, 0)
        }
        reports.count += 1
        if reports.count <= Self.reportsPerSecond { log(level, line()) }
    }

    /// Returns a text from a client as a single line of bounded length.
    private func printable(_ text: String) -> String {
        "\"" + text.unicodeScalars.prefix(140).map { $0.isASCII && $0.value >= 32 ? String($0) : "?" }.joined() + "\""
    }

    private func describe(_ keys: KeySet) -> String {
        keys.keys.map { "\($0.algorithm.rawValue) key \($0.id ?? "without a name")" }.joined(separator: ", ")
    }

    private func warnOfUnusable(_ keys: KeySet) {
        for key in keys.unusable { log(MOSQ_LOG_WARNING, "a key cannot be used and is passed over: \(key)") }
    }

    private func identify(_ client: OpaquePointer?) -> BrokerAuth.ConnectionID { Int(bitPattern: client) }

    private func bytes(_ text: UnsafePointer<CChar>?) -> UnsafeBufferPointer<UInt8>? {
        text.map {
            UnsafeBufferPointer(start: UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self), count: strlen($0))
        }
    }
}
