import BrokerAuth
import CMosquittoBroker
import Glibc
import SignalingProtocol
import Tokens

/// The plugin as mosquitto sees it: options, events, and what the broker is told to do. What is decided, and why, stands in
/// `BrokerAuth`. Everything runs on the broker's one thread.
final class Plugin {
    /// Refusals that are logged per second; more are counted.
    private static let refusalsPerSecond = 10

    /// By which mosquitto knows the plugin.
    let identifier: OpaquePointer?
    private let options: Options
    private var auth: BrokerAuth
    private var refusals = (second: Int64(0), count: 0)

    private struct Options {
        let keys: String
        var issuer: String?
        var audience: String?
        var topics = Topics.standard
        var coordinatorName: String?
        /// What the service's own limits (docs/protocol.md, section 2, Rate limits) would answer must reach it first, and a large burst
        /// makes everybody wait: this one keeps floods from it.
        var publishLimit = PublishLimit(rate: 1_000, burst: 1_000)

        init(_ list: UnsafeBufferPointer<mosquitto_opt>) throws(OptionError) {
            var keys: String?
            for option in list {
                guard let key = option.key, let value = option.value else { continue }
                let text = String(cString: value)
                switch String(cString: key) {
                case "keys": keys = text
                case "issuer": issuer = text
                case "audience": audience = text
                case "coordinator": coordinatorName = text
                case "topic_root":
                    guard let given = Topics(root: text) else {
                        throw OptionError("plugin_opt_topic_root: expected \(Topics.rootForm)")
                    }
                    topics = given
                case "user_rate":
                    let parts = text.split(separator: "/").map { Int($0) }
                    let given = parts.count == 2 ? parts.compactMap(\.self) : []
                    guard given.count == 2, given == [0, 0] || PublishLimit(rate: given[0], burst: given[1]) != nil
                    else {
                        throw OptionError("plugin_opt_user_rate: expected RATE/BURST, as 1000/1000, or 0/0")
                    }
                    publishLimit = PublishLimit(rate: given[0], burst: given[1])
                case let other: throw OptionError("plugin_opt_\(other): unknown option")
                }
            }
            guard let keys else { throw OptionError("plugin_opt_keys FILE is missing") }
            self.keys = keys
        }
    }

    struct OptionError: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    init(_ identifier: OpaquePointer?, _ list: UnsafeBufferPointer<mosquitto_opt>) throws {
        self.identifier = identifier
        options = try Options(list)
        auth = BrokerAuth(
            verifier: TokenVerifier(
                keys: try KeySet(file: options.keys), issuer: options.issuer, audience: options.audience),
            topics: options.topics, coordinatorName: options.coordinatorName, publishLimit: options.publishLimit)
        // The broker's memory holds tokens, with HS256 also the key: none of it belongs on a disk.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        log(MOSQ_LOG_NOTICE, "tokens are checked by \(describe(auth.verifier.keys))")
    }

    /// SIGHUP. Keys that cannot be read change nothing: better an old key than no broker.
    func reload() {
        do throws(TokenError) {
            let keys = try KeySet(file: options.keys)
            let ended = auth.replaceKeys(keys)
            log(
                MOSQ_LOG_NOTICE, "tokens are now checked by \(describe(keys)); \(ended.count) clients lose their access"
            )
            perform(ended)
        } catch {
            log(MOSQ_LOG_ERR, "the keys stay as they were: \(error)")
        }
    }

    func connect(_ event: mosquitto_evt_basic_auth) -> Int32 {
        let credentials = BrokerAuth.Credentials(
            clientID: mosquitto_client_id(event.client).map { String(cString: $0) } ?? "",
            username: event.username.map { String(cString: $0) }, password: event.password.map { String(cString: $0) },
            certificateName: certificateName(of: event.client))
        do throws(Refusal) {
            let identity = try auth.connect(identify(event.client), credentials, now: now())
            // With `allow_anonymous false` mosquitto drops all who have no name when it reads its configuration again.
            if event.username == nil { mosquitto_set_username(event.client, identity.name) }
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
        // To listen to less.
        case MOSQ_ACL_UNSUBSCRIBE: return true
        default: return false
        }
        guard let topic = bytes(event.topic) else { return false }
        return auth.permits(access, topic, identify(event.client), now: now())
    }

    /// Tells the service when the device's token ends, after whatever the device itself has written there.
    func published(_ event: UnsafeMutablePointer<mosquitto_evt_message>) -> Int32 {
        guard let client = event.pointee.client, let topic = bytes(event.pointee.topic),
            let expiry = auth.tokenExpiry(ofPublisher: identify(client), topic: topic)
        else { return Int32(MOSQ_ERR_SUCCESS.rawValue) }
        return mosquitto_property_add_string_pair(
            &event.pointee.properties, Int32(MQTT_PROP_USER_PROPERTY.rawValue), UserProperty.tokenExpiresAt,
            "\(expiry)")
    }

    func tick() { perform(auth.takeDue(now: now())) }

    private func perform(_ due: [BrokerAuth.Due]) {
        for action in due {
            switch action {
            case .tokenWillExpire(let clientID, let topic, let expiresAt):
                let payload = DownMessage.tokenWillExpire(at: expiresAt).encoded()
                mosquitto_broker_publish_copy(clientID, topic, Int32(payload.count), payload, 1, false, nil)
            case .ended(let clientID):
                // With its will: the service learns that the device is gone.
                mosquitto_kick_client_by_clientid(clientID, true)
            }
        }
    }

    private func report(_ refusal: Refusal, _ credentials: BrokerAuth.Credentials, _ client: OpaquePointer?) {
        let second = now() / 1000
        if second != refusals.second {
            if refusals.count > Self.refusalsPerSecond {
                log(MOSQ_LOG_NOTICE, "\(refusals.count - Self.refusalsPerSecond) more clients were refused")
            }
            refusals = (second, 0)
        }
        refusals.count += 1
        guard refusals.count <= Self.refusalsPerSecond else { return }
        let address = mosquitto_client_address(client).map { String(cString: $0) } ?? "unknown"
        log(
            refusal.isWithoutCredentials ? MOSQ_LOG_INFO : MOSQ_LOG_NOTICE,
            "client \(printable(credentials.clientID)) at \(address) is refused: \(refusal)")
    }

    /// What a stranger chose, on one line and of bounded length.
    private func printable(_ text: String) -> String {
        "\"" + text.unicodeScalars.prefix(140).map { $0.isASCII && $0.value >= 32 ? String($0) : "?" }.joined() + "\""
    }

    private func describe(_ keys: KeySet) -> String {
        keys.keys.map { "\($0.algorithm.rawValue) key \($0.id ?? "without a name")" }.joined(separator: ", ")
    }

    private func identify(_ client: OpaquePointer?) -> BrokerAuth.ConnectionID { Int(bitPattern: client) }

    private func bytes(_ text: UnsafePointer<CChar>?) -> UnsafeBufferPointer<UInt8>? {
        text.map {
            UnsafeBufferPointer(start: UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self), count: strlen($0))
        }
    }
}
