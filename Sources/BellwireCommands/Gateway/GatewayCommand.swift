import CallCore
import CallStore
import Coordinator
import Delivery
import Dispatch
import Gateway
import Glibc
import HTTPServing
import MQTTClient
import SignalingProtocol
import Synchronization
import TLSClient
import Tokens

/// `bellwire gateway`: serves REST for backends, beside any number of coordinators (docs/backend.md).
package enum GatewayCommand {
    static let command = Command(
        name: "gateway", arguments: "",
        summary: """
            REST for backends: a coordinator decides each request, as with requests of devices. Any number of gateways
            may run behind a load balancer.
            """,
        options: [
            ConfigFile.option,
            Option("http", "HOST:PORT", default: "127.0.0.1:8080", "the address that the gateway serves"),
            Option(
                "admin-http", "HOST:PORT", default: "",
                "a listener of its own for /v1/admin and the admin page at /admin/; without it, --http serves both"),
            Option("http-cert", "FILE", default: "", "serve HTTPS with this certificate (PEM, with its chain)"),
            Option("http-key", "FILE", default: "", "the certificate's private key (PEM)"),
        ] + ConnectionOptions.all + [
            Option(
                "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
                "mqtt://[user[:password]@]host:port, or mqtts://; several brokers with commas"),
            Option("broker-ca", "FILE", default: "", "certificate authorities to trust with mqtts://"),
            Option(
                "token-file", "FILE", default: "",
                "a file with this gateway's own token (role server), for a broker that checks tokens"),
            Option(
                "keys", "FILE",
                "the key set that checks backends' tokens, and makes tokens if it has private keys; required"),
            Option("issuer", "TEXT", "iss that tokens must have, and new tokens get"),
            Option(
                "audience", "TEXT", default: Token.standardAudience, "aud of these tokens; empty for none"),
            Option(
                "longest-token-life", "SECONDS", default: "0",
                "refuse tokens of devices and administrators that live longer; 0 for no limit"),
            Option(
                "name", "NAME", default: "", "MQTT client id, unique among the clients of the broker; random when empty"
            ),
            PageOptions.webSocketURL, PageOptions.page, PageOptions.brokerTokens,
            SettingsOptions.topicRoot, SettingsOptions.presenceLease,
            LogOptions.level, LogOptions.format,
        ] + StoreOptions.visiting + DeliveryOptions.all + [
            SettingsOptions.trace, SettingsOptions.historyRetention,
        ], positionals: 0...0)

    package static func run(_ words: [String]) throws {
        try Arguments(command, words).placing(start)
    }

    /// Throws the first mistake of the settings, and starts nothing. A file without `keys` may be completed by the
    /// command line.
    static func check(_ arguments: Arguments) throws {
        var settings = try settings(arguments)
        _ = try ConnectionOptions.read(arguments, into: &settings)
        _ = try LogOptions.read(arguments)
        _ = try StoreOptions.address(arguments, ServiceSettings(), isVisited: true)
        _ = try SettingsOptions.trace(arguments)
        _ = try SettingsOptions.historyRetention(arguments)
        if arguments.text("keys") != nil { _ = try bearers(arguments) }
        try DeliveryOptions.check(arguments)
    }

    private static func start(_ arguments: Arguments) throws {
        // The memory holds tokens and keys, which must not be written to a disk: the process makes no core dump.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        // Signals are blocked before the process starts other threads.
        let signals = ProcessSignals(reloads: true)
        var settings = try settings(arguments)
        let warning = try ConnectionOptions.read(arguments, into: &settings)
        let (level, format) = try LogOptions.read(arguments)
        let log = Log(level: level, format: format, coordinator: settings.name)
        var service = ServiceSettings()
        service.topics = settings.topics
        let bearers = try bearers(arguments)
        if let warning { log(.warning, "there are fewer connections than asked for", warning) }
        log.warn(ofUnusableKeys: bearers.unusableKeys)
        let store = try StoreOptions.open(arguments, service, isVisited: true)
        let delivery = try WebhookDelivery(arguments, "bellwire gateway", log: log) {
            try StoreOptions.open(arguments, service, isVisited: true)
        }
        let push = try PushDelivery(
            try arguments.file("push"),
            PushDelivery.Surroundings(
                command: "bellwire gateway", name: settings.name, lease: settings.lease,
                traces: try SettingsOptions.trace(arguments),
                traceLife: try SettingsOptions.historyRetention(arguments),
                delivers: try DeliveryOptions.delivers(arguments), log: log)
        ) { try StoreOptions.open(arguments, service, isVisited: true) }
        let media = try MediaDelivery(
            try arguments.file("media"), "bellwire gateway", delivers: try DeliveryOptions.delivers(arguments), log: log
        ) { try StoreOptions.open(arguments, service, isVisited: true) }
        let status = GatewayStatus { log($0) }
        let servedEnd = ServedEnd(settings.http.tls.flatMap { certificateEnd(of: $0.certificates) })
        let expiry = try ExpiryMetrics(arguments, ["broker-ca", "redis-ca"]) { servedEnd.value }
        status.alsoShow(allMetrics(delivery, push, media, nil, expiry))
        nonisolated(unsafe) let own: Gateway.Store = store
        let gateway = try Gateway(settings, own, bearers, status)
        log(
            .info, "gateway starts",
            [
                "name": settings.name, "port": "\(gateway.port)",
                "broker": settings.brokers.map(\.description).joined(separator: ","),
            ])
        if let port = gateway.adminPort {
            log(.info, "administrators have a listener of their own", ["port": "\(port)"])
        }

        let end = DispatchSemaphore(value: 0)
        signals.onSignal(end: { end.signal() }) {
            servedEnd.value = reloadCertificate(arguments, gateway, log) ?? servedEnd.value
        }
        end.wait()
        gateway.stop()
        delivery?.stop()
        push?.stop()
        media?.stop()
        log(.info, "gateway stopped", ["name": settings.name])
    }

    private static func bearers(_ arguments: Arguments) throws(UsageError) -> BearerCheck {
        let keys = try arguments.required("keys", "a file") { $0.isEmpty ? nil : $0 }
        let life = try arguments.integer("longest-token-life", in: 0...Int(TokenVerifier.mostLongestLife))
        do {
            return try BearerCheck(
                keys: keys, issuer: arguments.text("issuer"),
                audience: arguments.text("audience").flatMap { $0.isEmpty ? nil : $0 },
                longestLife: life == 0 ? nil : Int64(life) * 1_000)
        } catch {
            throw UsageError("bellwire gateway: --keys: \(error)")
        }
    }

    private static func settings(_ arguments: Arguments) throws(UsageError) -> Gateway.Settings {
        guard let address = try ListenAddress(arguments) else {
            throw UsageError("bellwire gateway: --http is required")
        }
        let name = arguments.text("name").flatMap { $0.isEmpty ? nil : $0 } ?? "gateway-" + randomHex(bytes: 6)
        guard RequestID(name) != nil else {
            throw UsageError("bellwire gateway: --name \(name): expected 1 to 64 of A-Z a-z 0-9 _ -")
        }
        let brokers = try BrokerList.addresses(arguments)
        var settings = Gateway.Settings(
            host: address.host, port: address.port, brokers: brokers, name: name,
            lease: try SettingsOptions.presenceLease(arguments))
        settings.certificateAuthorityFile = try arguments.file("broker-ca")
        settings.tokenFile = try arguments.file("token-file")
        settings.topics = try SettingsOptions.topics(arguments)
        settings.http.tls = try tls(arguments)
        settings.page = try PageOptions.page(arguments)
        settings.admin = try ListenAddress(arguments, option: "admin-http").map { ($0.host, $0.port) }
        return settings
    }

    /// Reads the certificate of HTTPS and its key; returns nil for plain HTTP.
    private static func tls(_ arguments: Arguments) throws(UsageError) -> HTTPServerSettings.TLS? {
        let (certificates, key) = (try arguments.file("http-cert"), try arguments.file("http-key"))
        guard (certificates == nil) == (key == nil) else {
            throw UsageError("bellwire gateway: --http-cert and --http-key go together")
        }
        guard let certificates, let key else { return nil }
        return .init(certificates: try text(of: certificates), key: try text(of: key))
    }

    /// Reads the certificate of HTTPS again. A certificate that cannot be used changes nothing: an old certificate is
    /// better than none. Returns the end of the new certificate; nil when nothing has changed.
    private static func reloadCertificate(_ arguments: Arguments, _ gateway: Gateway, _ log: Log) -> Int64? {
        do {
            guard let tls = try tls(arguments) else {
                log(.info, "SIGHUP: no certificate to be read again, since the gateway serves plain HTTP")
                return nil
            }
            if let reason = gateway.replaceCertificate(tls) { throw UsageError(reason) }
            log(.info, "the certificate of HTTPS was read again")
            return certificateEnd(of: tls.certificates)
        } catch {
            log(
                .error, "the certificate of HTTPS cannot be used; the former certificate stays", ["reason": "\(error)"])
            return nil
        }
    }

    private static func text(of path: String) throws(UsageError) -> String {
        do throws(SettingsError) {
            return String(decoding: try readFile(path, maxBytes: 1 << 20), as: UTF8.self)
        } catch {
            throw UsageError("bellwire gateway: \(error.description)")
        }
    }
}

/// The end of the certificate that the gateway serves HTTPS with, in Unix time; nil for plain HTTP.
private final class ServedEnd: Sendable {
    private let end: Mutex<Int64?>

    init(_ end: Int64?) { self.end = Mutex(end) }

    var value: Int64? {
        get { end.withLock(\.self) }
        set { end.withLock { $0 = newValue } }
    }
}

extension Log {
    fileprivate func warn(ofUnusableKeys keys: [String]) {
        for key in keys { self(.warning, "a key cannot be used and is passed over", ["key": key]) }
    }

    fileprivate func callAsFunction(_ notice: GatewayStatus.Notice) {
        switch notice {
        case .listening: self(.info, "listening")
        case .brokerLost(let reason): self(.warning, "broker connection lost", ["reason": reason])
        case .storeFails(let reason): self(.warning, "the store fails", ["reason": reason])
        case .storeIsBack: self(.info, "the store is back")
        case .keysRead(let unusable):
            self(.info, "the key set was read again")
            warn(ofUnusableKeys: unusable)
        case .logLevel(let level): _ = follow(level)
        case .keysUnreadable(let reason): self(.error, "the key set cannot be read", ["reason": reason])
        }
    }
}
