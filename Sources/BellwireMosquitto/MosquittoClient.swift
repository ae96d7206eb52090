import BellwireClientCore
import CMosquitto
import Glibc
import Support

/// A client of libmosquitto for a single connection, used by a single thread. libmosquitto calls back on that thread,
/// within the methods here; the callbacks only set properties.
final class MosquittoClient: ThreadedClient {
    let handle: OpaquePointer
    let transport: MosquittoTransport
    let request: BellwireConnectionRequest
    /// The number of messages that the broker has not acknowledged yet, or, with QoS 0, that the socket has not taken
    /// yet.
    var backlog = 0
    /// Whether the broker has yet to answer a probe.
    var isProbing = false
    /// The largest packet that the broker accepts, in bytes; until CONNACK the largest that MQTT can express.
    var largestPacket = 268_435_460
    var received: [BellwireTransportEvent] = []
    var isConnected = false
    var ungranted: Int
    /// The error that ends the connection, from an answer of the broker or a topic that is not valid; nil while only
    /// libmosquitto's return codes can tell an error.
    var verdict: BellwireTransportError?
    /// The last error that libmosquitto logged.
    var complaint = ""
    var keepAlive: Duration
    private let wakeUp: WakeUp
    private var quietSince = ContinuousClock.now

    var isSubscribed: Bool { isConnected && ungranted == 0 }

    private static let library: Void = bellwire_mosquitto_start()
    private static let longestAnswer = Duration.seconds(5)
    /// The longest wait for acknowledgments of published messages before DISCONNECT, and the longest time of that wait
    /// and DISCONNECT together: `close` has 2 s.
    private static let (longestFlush, longestFarewell) = (Duration.seconds(1), Duration.milliseconds(1_500))

    /// Begins to connect. Blocks while the name is looked up.
    init(
        _ transport: MosquittoTransport, _ request: BellwireConnectionRequest, _ wakeUp: WakeUp
    ) throws(BellwireTransportError) {
        Self.library
        guard let handle = mosquitto_new(request.clientID, true, nil) else {
            throw BellwireTransportError(.invalid, "libmosquitto: \(String(cString: strerror(errno)))")
        }
        (self.handle, self.transport, self.request, self.wakeUp) = (handle, transport, request, wakeUp)
        ungranted = request.topics.count
        // libmosquitto accepts no keepalive below 5 s.
        keepAlive = min(max(.seconds(5), request.keepAlive), .seconds(65_535))
        setCallbacks()
        try configure()
        let seconds = Int32(keepAlive.components.seconds)
        try judge(mosquitto_connect_async(handle, transport.host, Int32(transport.port), seconds))
    }

    // `mosquitto_destroy` must not run within a callback. Callbacks run only within the methods of this class, whose
    // callers hold the object, so that `deinit` comes after the callback.
    deinit { mosquitto_destroy(handle) }

    private func configure() throws(BellwireTransportError) {
        let version = transport.version == .v5 ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311
        mosquitto_int_option(handle, MOSQ_OPT_PROTOCOL_VERSION, version)
        // Without this option, a round trip waits for a delayed TCP acknowledgment.
        mosquitto_int_option(handle, MOSQ_OPT_TCP_NODELAY, 1)
        let (username, password) = (transport.username ?? request.username, request.password ?? transport.password)
        try check(password?.utf8.count ?? 0 <= 65_535 ? 0 : MOSQ_ERR_PAYLOAD_SIZE.rawValue, "the token")
        try check(mosquitto_username_pw_set(handle, username, password), "user name and password")
        if let will = request.will {
            let (topic, bytes) = (will.topic, will.payload)
            try check(mosquitto_will_set(handle, topic, Int32(bytes.count), bytes, 1, false), "the will")
        }
        if let proxy = transport.socks {
            let (name, secret) = (proxy.username, proxy.password)
            try check(mosquitto_socks5_set(handle, proxy.host, Int32(proxy.port), name, secret), "SOCKS")
        }
        guard transport.isTLS else { return }
        let file = transport.certificateAuthorityFile
        let code = file.map { mosquitto_tls_set(handle, $0, nil, nil, nil, nil) }
        guard code ?? mosquitto_int_option(handle, MOSQ_OPT_TLS_USE_OS_CERTS, 1) != 0 else { return }
        throw BellwireTransportError(.tls, "\(file ?? "TLS"): there are no certificate authorities to be read")
    }

    private func check(_ code: Int32, _ what: String) throws(BellwireTransportError) {
        if code != 0 { throw BellwireTransportError(.invalid, "\(what): \(String(cString: mosquitto_strerror(code)))") }
    }

    func publish(_ all: [BellwireOutgoingMessage]) throws(BellwireTransportError) {
        for message in all { try publish(message) }
    }

    private func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
        var properties = OpaquePointer?.none
        defer { mosquitto_property_free_all(&properties) }
        if let seconds = message.expirySeconds, transport.version == .v5 {
            mosquitto_property_add_int32(&properties, Int32(MQTT_PROP_MESSAGE_EXPIRY_INTERVAL.rawValue), seconds)
        }
        let (topic, bytes, size) = (message.topic, message.payload, Int32(message.payload.count))
        if backlog == 0, !isProbing { quietSince = .now }
        // With QoS 0, libmosquitto calls the callback that lowers the backlog within this call when the socket takes
        // the message.
        backlog += 1
        try judge(mosquitto_publish_v5(handle, nil, topic, size, bytes, Int32(request.qos.rawValue), false, properties))
    }

    /// Asks the broker for a sign of life. libmosquitto sends PINGREQ only at its own intervals, so the probe is an
    /// UNSUBSCRIBE of a topic without a subscription, which every broker answers.
    func probe() throws(BellwireTransportError) {
        guard !isProbing else { return }
        if backlog == 0 { quietSince = .now }
        isProbing = true
        try judge(mosquitto_unsubscribe(handle, nil, "probe"))
    }

    func wait(milliseconds: Int32) throws(BellwireTransportError) {
        let wanted = POLLIN | (mosquitto_want_write(handle) ? POLLOUT : 0)
        var broker = pollfd(fd: mosquitto_socket(handle), events: Int16(wanted), revents: 0)
        var descriptors = [broker, pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0)]
        poll(&descriptors, 2, milliseconds)
        broker = descriptors[0]
        if descriptors[1].revents != 0 { wakeUp.clear() }
        let isReadable = Int32(broker.revents) & ~POLLOUT != 0
        if isReadable { try judgeEnd(of: broker.fd) }
        var code = isReadable ? mosquitto_loop_read(handle, 1) : 0
        if code == 0, Int32(broker.revents) & POLLOUT != 0 { code = mosquitto_loop_write(handle, 1) }
        try judge(code == 0 ? mosquitto_loop_misc(handle) : code)
        if broker.revents != 0 { quietSince = .now }
        // A backlog counts as a probe: the broker has to answer these messages, or at QoS 0 to take them.
        let longest = Self.longestAnswer + (backlog == 0 && !isProbing ? keepAlive : .zero)
        if .now - quietSince > longest {
            throw BellwireTransportError(.lost(isClean: false), "the broker no longer answers")
        }
    }

    func disconnect() {
        let start = ContinuousClock.now
        func hasTurn(until end: Duration) -> Bool { .now < start + end && (try? wait(milliseconds: 10)) != nil }
        while backlog > 0, hasTurn(until: Self.longestFlush) {}
        // libmosquitto closes the socket at once. Unread bytes would then reset the connection, and the broker would
        // publish the will. The copy of the descriptor keeps the socket open until the bytes are read.
        let copy = isConnected ? fcntl(mosquitto_socket(handle), F_DUPFD_CLOEXEC, 0) : -1
        guard copy >= 0 else { return }
        mosquitto_disconnect(handle)
        while mosquitto_socket(handle) >= 0, hasTurn(until: Self.longestFarewell) {}
        shutdown(copy, Int32(SHUT_WR))
        var (end, bytes) = (pollfd(fd: copy, events: Int16(POLLIN), revents: 0), [UInt8](repeating: 0, count: 4_096))
        while .now < start + Self.longestFarewell, poll(&end, 1, 10) == 0 || recv(copy, &bytes, bytes.count, 0) > 0 {}
        close(copy)
    }
}
