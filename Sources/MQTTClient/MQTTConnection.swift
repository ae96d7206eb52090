import CMosquitto
import Glibc

/// One connection to a broker, driven by one thread.
///
/// A connection is made once and never re-made: when it is lost, the object goes with all that libmosquitto had queued
/// for it, so that nothing stale is sent later under a fresh expiry. The owner makes a new one.
///
/// Every method except `wake()` must be called by the thread that called `connect()`.
public final class MQTTConnection {
    public struct Configuration: Sendable {
        public var broker: BrokerAddress
        public var clientID: String
        /// Seconds; libmosquitto takes nothing below 5.
        public var keepAlive: Int32 = 5
        /// Published by the broker when this connection is lost.
        public var will: MQTTMessage?
        /// A file with the certificate authorities to trust with `mqtts://`; the system's when nil.
        public var certificateAuthorityFile: String?
        /// With `mqtts://`: files with the certificate and the key by which this client is known to the broker.
        public var certificateFile: String?
        public var certificateKeyFile: String?
        /// The user property of received messages that is wanted; nil for none.
        public var userProperty: String?
        /// How many QoS 1 messages may be unacknowledged each way.
        public var inflightLimit: Int32 = 1000

        public init(broker: BrokerAddress, clientID: String) {
            self.broker = broker
            self.clientID = clientID
        }
    }

    /// Where the connection stands. It only moves downward.
    public enum State: Equatable, Sendable {
        /// CONNECT was sent. Can transition to `connected` and `closed`.
        case connecting
        /// CONNACK arrived. Can transition to `closed`.
        case connected
        /// Final.
        case closed(reason: String)
    }

    /// How many messages one `poll` reads at most: of a flood the rest waits in the socket, not in memory, and the owner
    /// gets to its timers.
    private static let readBatch = 256

    public private(set) var state = State.connecting
    /// Packet identifiers of subscriptions and unsubscriptions that the broker has answered since the last `poll`.
    public private(set) var acknowledged: Set<Int32> = []

    private var delivered: [Int32] = []
    private var awaited: Set<Int32> = []

    /// Messages published that have not left, or, at QoS 1, that the broker has not acknowledged.
    public private(set) var backlog = 0

    private let handle: OpaquePointer
    private let wakeDescriptor: Int32
    private var inbox: [MQTTMessage] = []
    private let configuration: Configuration

    public init(_ configuration: Configuration) throws(MQTTError) {
        _ = Library.initialised
        self.configuration = configuration
        wakeDescriptor = bellwire_wake_descriptor()
        guard wakeDescriptor >= 0, let handle = mosquitto_new(configuration.clientID, true, nil) else {
            throw MQTTError(kind: .invalid, message: "no MQTT client handle: \(String(cString: strerror(errno)))")
        }
        self.handle = handle
        try configure()
    }

    deinit {
        mosquitto_destroy(handle)
        close(wakeDescriptor)
    }

    private func configure() throws(MQTTError) {
        mosquitto_user_data_set(handle, Unmanaged.passUnretained(self).toOpaque())
        mosquitto_int_option(handle, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5)
        // Without it a QoS 1 round trip waits for a delayed TCP acknowledgment: 44 ms instead of 0.2 ms.
        mosquitto_int_option(handle, MOSQ_OPT_TCP_NODELAY, 1)
        mosquitto_int_option(handle, MOSQ_OPT_RECEIVE_MAXIMUM, configuration.inflightLimit)
        mosquitto_int_option(handle, MOSQ_OPT_SEND_MAXIMUM, configuration.inflightLimit)
        mosquitto_connect_v5_callback_set(handle, onConnect)
        mosquitto_disconnect_v5_callback_set(handle, onDisconnect)
        mosquitto_message_v5_callback_set(handle, onMessage)
        mosquitto_publish_v5_callback_set(handle, onPublish)
        mosquitto_subscribe_v5_callback_set(handle, onSubscribe)
        mosquitto_unsubscribe_v5_callback_set(handle, onUnsubscribe)
        let broker = configuration.broker
        if broker.username != nil || broker.password != nil {
            mosquitto_username_pw_set(handle, broker.username, broker.password)
        }
        if configuration.broker.isTLS {
            let authorities = configuration.certificateAuthorityFile
            let code = mosquitto_tls_set(
                handle, authorities, authorities == nil ? "/etc/ssl/certs" : nil, configuration.certificateFile,
                configuration.certificateKeyFile, nil)
            guard code == MOSQ_ERR_SUCCESS.rawValue.int else {
                throw MQTTError(
                    kind: .tls, message: "TLS cannot be set up: the files of certificates and keys cannot be used")
            }
        }
        if let will = configuration.will {
            mosquitto_will_set_v5(
                handle, will.topic, Int32(will.payload.count), will.payload, will.qos.rawValue, will.retain, nil)
        }
    }

    /// Opens the connection; CONNACK comes with a later `poll`. Blocks while the name is looked up and TCP connects,
    /// for each at most `milliseconds`.
    public func connect(within milliseconds: Int32 = 1_000) throws(MQTTError) {
        // libmosquitto waits for TCP as long as the system does, which is minutes where packets vanish.
        guard let address = reachableAddress(of: configuration.broker, within: milliseconds) else {
            throw MQTTError(kind: .unreachable, message: "\(configuration.broker): \(String(cString: strerror(errno)))")
        }
        let code = mosquitto_connect_bind_v5(
            // With TLS by name, which the certificate is held against.
            handle, configuration.broker.isTLS ? configuration.broker.host : address, Int32(configuration.broker.port),
            configuration.keepAlive, nil, nil)
        guard code == MOSQ_ERR_SUCCESS.rawValue.int else {
            throw MQTTError(kind: .unreachable, message: "\(configuration.broker): \(describe(code))")
        }
    }

    /// Runs `body`, which publishes more than one message: they go out together, in few packets, when it ends.
    public func together<Failure>(_ body: () throws(Failure) -> Void) throws(Failure) {
        let socket = mosquitto_socket(handle)
        hold(socket, true)
        defer { hold(socket, false) }
        try body()
    }

    /// While it is held, the system collects what is written; otherwise each message is a packet, and wakes the broker.
    private func hold(_ socket: Int32, _ isHeld: Bool) {
        var value: Int32 = isHeld ? 1 : 0
        setsockopt(socket, Int32(IPPROTO_TCP), TCP_CORK, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Waits up to `milliseconds` for messages or `wake()`, and returns what has arrived.
    public func poll(milliseconds: Int32) throws(MQTTError) -> [MQTTMessage] {
        acknowledged.removeAll(keepingCapacity: true)
        let socket = mosquitto_socket(handle)
        guard socket >= 0 else { throw lost() }
        var descriptors = [
            pollfd(fd: socket, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        if mosquitto_want_write(handle) { descriptors[0].events |= Int16(POLLOUT) }
        _ = Glibc.poll(&descriptors, 2, max(0, milliseconds))
        if descriptors[1].revents != 0 {
            var count: UInt64 = 0
            _ = read(wakeDescriptor, &count, 8)
        }
        if descriptors[0].revents & Int16(POLLOUT) != 0 { try check(mosquitto_loop_write(handle, 1)) }
        if descriptors[0].revents & ~Int16(POLLOUT) != 0 { try readAll(socket) }
        try check(mosquitto_loop_misc(handle))
        if case .closed = state { throw lost() }
        defer { inbox.removeAll(keepingCapacity: true) }
        return inbox
    }

    private func readAll(_ socket: Int32) throws(MQTTError) {
        // The acknowledgments of what is read.
        hold(socket, true)
        // With a DISCONNECT of the broker libmosquitto has closed it, and the number may be another file's by now.
        defer { if mosquitto_socket(handle) == socket { hold(socket, false) } }
        var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        repeat {
            try check(mosquitto_loop_read(handle, 1))
        } while inbox.count < Self.readBatch && mosquitto_socket(handle) == socket && Glibc.poll(&descriptor, 1, 0) > 0
    }

    /// Ends a `poll` that is waiting. May be called by any thread.
    public func wake() {
        var one: UInt64 = 1
        _ = write(wakeDescriptor, &one, 8)
    }

    /// Subscribes; `acknowledged` holds the returned identifier once the broker has answered.
    public func subscribe(_ filter: String, qos: QoS) throws(MQTTError) -> Int32 {
        var identifier: Int32 = 0
        try check(mosquitto_subscribe_v5(handle, &identifier, filter, qos.rawValue, Self.noRetained, nil))
        return identifier
    }

    public func unsubscribe(_ filter: String) throws(MQTTError) -> Int32 {
        var identifier: Int32 = 0
        try check(mosquitto_unsubscribe_v5(handle, &identifier, filter, nil))
        return identifier
    }

    /// Hands one message to libmosquitto. With `isAwaited` the identifier that it returns will be told by `takeDelivered`.
    @discardableResult
    public func publish(_ message: MQTTMessage, isAwaited: Bool = false) throws(MQTTError) -> Int32 {
        var identifier: Int32 = 0
        var properties: OpaquePointer?
        defer { mosquitto_property_free_all(&properties) }
        if let expiry = message.expirySeconds {
            mosquitto_property_add_int32(&properties, Int32(MQTT_PROP_MESSAGE_EXPIRY_INTERVAL.rawValue), expiry)
        }
        if let correlation = message.correlationData {
            mosquitto_property_add_binary(
                &properties, Int32(MQTT_PROP_CORRELATION_DATA.rawValue), correlation,
                UInt16(clamping: correlation.count))
        }
        // Counted before: at QoS 0 the callback that counts it off runs within the call.
        backlog += 1
        do throws(MQTTError) {
            try check(
                mosquitto_publish_v5(
                    handle, &identifier, message.topic, Int32(message.payload.count), message.payload,
                    message.qos.rawValue,
                    message.retain, properties))
        } catch {
            backlog -= 1
            throw error
        }
        if isAwaited {
            if message.qos == .atMostOnce { delivered.append(identifier) } else { awaited.insert(identifier) }
        }
        return identifier
    }

    /// The awaited messages that the broker has acknowledged since the last time; at QoS 0, that were handed over.
    public func takeDelivered() -> [Int32] {
        defer { delivered.removeAll(keepingCapacity: true) }
        return delivered
    }

    /// Says goodbye: the broker drops the will. Waits up to `milliseconds` for the broker to have all that was published:
    /// mosquitto throws away what it has not read yet when it cannot acknowledge to a closed socket. Messages that
    /// arrive meanwhile are dropped.
    public func disconnect(flushingFor milliseconds: Int32 = 1000) {
        var rest = milliseconds
        while backlog > 0 || mosquitto_want_write(handle), rest > 0 {
            guard (try? poll(milliseconds: Self.flushStep)) != nil else { break }
            rest -= Self.flushStep
        }
        mosquitto_disconnect_v5(handle, 0, nil)
        state = .closed(reason: "disconnected")
    }

    private static let flushStep: Int32 = 10

    private func check(_ code: Int32) throws(MQTTError) {
        switch code {
        case MOSQ_ERR_SUCCESS.rawValue.int: return
        case MOSQ_ERR_PAYLOAD_SIZE.rawValue.int, MOSQ_ERR_MALFORMED_UTF8.rawValue.int, MOSQ_ERR_INVAL.rawValue.int,
            MOSQ_ERR_OVERSIZE_PACKET.rawValue.int:
            throw MQTTError(kind: .invalid, message: describe(code))
        default:
            if case .closed = state {} else { state = .closed(reason: describe(code)) }
            throw lost()
        }
    }

    private func lost() -> MQTTError {
        guard case .closed(let reason) = state else { return MQTTError(kind: .lost, message: "connection lost") }
        return MQTTError(kind: refused ? .refused : .lost, message: reason)
    }

    private var refused = false

    private func describe(_ code: Int32) -> String {
        code == MOSQ_ERR_ERRNO.rawValue.int
            ? String(cString: strerror(errno)) : String(cString: mosquitto_strerror(code))
    }

    // MARK: What the callbacks tell. They run within `poll`, on the owner's thread.

    fileprivate func connectAnswered(_ reason: Int32) {
        if reason == 0 {
            state = .connected
        } else {
            refused = true
            state = .closed(reason: "the broker refused: " + String(cString: mosquitto_reason_string(reason)))
        }
    }

    fileprivate func disconnected(_ reason: Int32) {
        if case .closed = state { return }
        state = .closed(reason: String(cString: mosquitto_strerror(reason)))
    }

    fileprivate func published(_ identifier: Int32) {
        backlog -= 1
        if awaited.remove(identifier) != nil { delivered.append(identifier) }
    }

    fileprivate func subscriptionAnswered(_ identifier: Int32, isGranted: Bool) {
        guard isGranted else {
            refused = true
            state = .closed(reason: "the broker refuses a subscription")
            return
        }
        acknowledged.insert(identifier)
    }

    fileprivate func received(_ message: UnsafePointer<mosquitto_message>, _ properties: OpaquePointer?) {
        let raw = message.pointee
        let payload = UnsafeRawBufferPointer(start: raw.payload, count: Int(raw.payloadlen))
        inbox.append(
            MQTTMessage(
                topic: String(cString: raw.topic), payload: Array(payload), qos: QoS(rawValue: raw.qos) ?? .atLeastOnce,
                retain: raw.retain, correlationData: properties.flatMap(correlationData),
                userProperty: properties.flatMap { userProperty(configuration.userProperty, in: $0) }))
    }

    /// Retained messages are not wanted at subscription: Bellwire publishes none (MQTT 5, section 3.8.3.1).
    private static let noRetained = Int32(MQTT_SUB_OPT_SEND_RETAIN_NEVER.rawValue)
}

private func correlationData(_ properties: OpaquePointer) -> [UInt8]? {
    var value: UnsafeMutableRawPointer?
    var length: UInt16 = 0
    let identifier = Int32(MQTT_PROP_CORRELATION_DATA.rawValue)
    guard mosquitto_property_read_binary(properties, identifier, &value, &length, false) != nil else { return nil }
    defer { free(value) }
    return Array(UnsafeRawBufferPointer(start: value, count: Int(length)))
}

/// The last value of that name: what a broker adds stands behind what the sender wrote.
private func userProperty(_ wanted: String?, in properties: OpaquePointer) -> String? {
    guard let wanted else { return nil }
    var found: String?
    var next: OpaquePointer? = properties
    var isFirst = true
    while let place = next {
        var name: UnsafeMutablePointer<CChar>?
        var value: UnsafeMutablePointer<CChar>?
        next = mosquitto_property_read_string_pair(
            place, Int32(MQTT_PROP_USER_PROPERTY.rawValue), &name, &value, !isFirst)
        isFirst = false
        defer {
            free(name)
            free(value)
        }
        guard next != nil, let name, let value else { break }
        if String(cString: name) == wanted { found = String(cString: value) }
    }
    return found
}

private enum Library {
    /// libmosquitto must be initialised once per process.
    static let initialised: Void = { mosquitto_lib_init() }()
}

extension FixedWidthInteger {
    /// C enumerations arrive with differing integer types.
    fileprivate var int: Int32 { Int32(truncatingIfNeeded: self) }
}

// C callbacks are file-private functions: a closure would inherit the isolation of where it is written.

private typealias Properties = OpaquePointer

private func connection(_ context: UnsafeMutableRawPointer?) -> MQTTConnection? {
    // The handle, and with it every callback, lives no longer than the connection that owns it.
    context.map { Unmanaged<MQTTConnection>.fromOpaque($0).takeUnretainedValue() }
}

private func onConnect(
    _: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ reason: Int32, _: Int32, _: Properties?
) {
    connection(context)?.connectAnswered(reason)
}

private func onDisconnect(_: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ reason: Int32, _: Properties?) {
    connection(context)?.disconnected(reason)
}

private func onMessage(
    _: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ message: UnsafePointer<mosquitto_message>?,
    _ properties: Properties?
) {
    guard let message else { return }
    connection(context)?.received(message, properties)
}

private func onPublish(
    _: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ identifier: Int32, _: Int32, _: Properties?
) {
    connection(context)?.published(identifier)
}

private func onSubscribe(
    _: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ identifier: Int32, _ count: Int32,
    _ granted: UnsafePointer<Int32>?, _: Properties?
) {
    // MQTT 5, section 3.9.3: reason codes from 0x80 on are refusals.
    let isGranted = UnsafeBufferPointer(start: granted, count: Int(count)).allSatisfy { (0..<0x80).contains($0) }
    connection(context)?.subscriptionAnswered(identifier, isGranted: isGranted)
}

private func onUnsubscribe(_: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ identifier: Int32, _: Properties?)
{
    connection(context)?.subscriptionAnswered(identifier, isGranted: true)
}
