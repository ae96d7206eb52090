import MQTTClient
import SignalingProtocol
import Support
import TLSClient

/// The examination of a running broker: each property that Bellwire needs is tried (docs/deployment.md, Any MQTT 5
/// broker). All topics begin with `{root}/doctor/{id}`; nothing is left behind.
struct BrokerExamination {
    private enum Bounds {
        /// The smallest packet size that the broker must accept: the largest message of the service and its topic.
        static let packetBytes = 300 * 1024
        /// The number of messages that a coordinator may have under way at the broker.
        static let receiveMaximum = 20
        /// The time beyond two PINGREQs, in milliseconds, from which an answer shows that small packets wait for others
        /// (Nagle's algorithm and delayed acknowledgments wait 40 ms).
        static let smallPackets = 35.0
        static let shared = 20
        /// The time in which a message that must not come would come, in milliseconds.
        static let quiet: Int64 = 300
        static let expiry: UInt32 = 60
    }

    private let configuration: MQTTConnection.Configuration
    private let hasCredentials: Bool
    private let id = randomHex(bytes: 6)
    private let topic: String

    /// - Parameter configuration: the connection's settings, with the credentials of a coordinator or a server.
    init(_ configuration: MQTTConnection.Configuration, root: String) {
        self.configuration = configuration
        hasCredentials = configuration.broker.password != nil || configuration.certificateFile != nil
        topic = "\(root)/doctor/\(id)"
    }

    /// Tries everything, in order. Later checks are left out when the broker cannot be used at all.
    func checks() -> [Check] {
        var checks: [Check] = []
        do throws(MQTTError) {
            let first = try Probe(configuration(1))
            checks.append(.ok("connect", "MQTT 5 at \(configuration.broker)"))
            if let end = PeerCertificates.ends["the broker"] {
                checks.append(CertificateExamination.check("broker", end))
            }
            let second = try Probe(configuration(2))
            checks += limits(first.offer)
            checks.append(attempt("publish") { () throws(MQTTError) in try publish(first, second) })
            guard checks.last?.verdict != .fail else { return checks }
            checks.append(largestMessage(second))
            checks.append(attempt("shared-subscriptions") { () throws(MQTTError) in try share(first, second) })
            checks.append(attempt("message-expiry") { () throws(MQTTError) in try expire(first, second) })
            checks.append(attempt("will") { () throws(MQTTError) in try will(second) })
            checks.append(attempt("retained") { () throws(MQTTError) in try retain(first) })
            checks.append(attempt("small-packets") { () throws(MQTTError) in try hurry(first, second) })
            checks.append(wrongToken())
            first.disconnect()
            second.disconnect()
        } catch {
            checks.append(
                .fail(
                    "connect", "\(configuration.broker): \(error)",
                    mend: error.isAboutCredentials
                        ? "give the token of a coordinator or server by --token-file (bellwire token --role server), or a "
                            + "certificate by --broker-cert and --broker-key"
                        : "start the broker, and check --broker, --broker-ca and the port for MQTT"))
        }
        return checks
    }

    private func configuration(_ number: Int) -> MQTTConnection.Configuration {
        var own = configuration
        own.clientID = "doctor-\(id)-\(number)"
        return own
    }

    private func attempt(_ name: String, _ body: () throws(MQTTError) -> Check) -> Check {
        do throws(MQTTError) {
            return try body()
        } catch {
            return .fail(
                name, "\(error)",
                mend: "allow coordinators and servers to publish, subscribe and share \(topic.dropLast(id.utf8.count))#"
            )
        }
    }

    private func message(_ name: String, _ text: String = "", expiry: UInt32? = nil, retain: Bool = false)
        -> MQTTMessage
    {
        MQTTMessage(topic: "\(topic)/\(name)", payload: Array(text.utf8), retain: retain, expirySeconds: expiry)
    }

    // MARK: The checks

    private func limits(_ offer: PacketProperties) -> [Check] {
        let size = offer.maximumPacketSize.map(Int.init) ?? .max
        let most = offer.receiveMaximum.map(Int.init) ?? 65_535
        let shown = size == .max ? "packets of any size" : "packets of \(size) bytes"
        var checks = [
            size >= Bounds.packetBytes
                ? Check.ok("packet-size", shown)
                : .fail(
                    "packet-size", "only \(shown); messages of the service have up to 256 KiB",
                    mend: "mosquitto: max_packet_size 393216; EMQX: mqtt.max_packet_size = 384KB"),
            most >= Bounds.receiveMaximum
                ? Check.ok("receive-maximum", "\(most) messages under way")
                : .warn(
                    "receive-maximum", "only \(most) messages under way: coordinators wait for the broker",
                    mend: "mosquitto: max_inflight_messages 1000; EMQX: mqtt.max_inflight = 1000"),
        ]
        if offer.maximumQoS == 0 {
            checks.append(
                .fail(
                    "qos", "QoS 0 alone: receipts may be lost, and refusals stay unseen",
                    mend: "allow QoS 1 at the broker"))
        }
        return checks
    }

    private func publish(_ first: Probe, _ second: Probe) throws(MQTTError) -> Check {
        try second.subscribe("\(topic)/#")
        guard try first.publish(message("plain", "1")) else {
            return .fail(
                "publish", "the broker refuses a message on \(topic)/plain",
                mend: "use the token of a coordinator or server (bellwire token --role server), and allow it that topic"
            )
        }
        guard try second.message(on: "\(topic)/plain") != nil else {
            return .fail(
                "publish", "the broker took a message, and did not deliver the message",
                mend: "allow this identity to subscribe to \(topic)/#")
        }
        return .ok("publish", "a message came through at QoS 1")
    }

    /// A connection of its own: a broker may end the connection that sends too much.
    private func largestMessage(_ second: Probe) -> Check {
        let mend = "mosquitto: message_size_limit 0, max_packet_size 393216; EMQX: mqtt.max_packet_size = 384KB"
        let largest = String(repeating: "x", count: Limits.downBytes)
        let name = "largest-message"
        do throws(MQTTError) {
            let sender = try Probe(configuration(8))
            defer { sender.disconnect() }
            let isTaken = try sender.publish(message("largest", largest))
            guard isTaken, try second.message(on: "\(topic)/largest") != nil else {
                return .fail(name, "\(largest.utf8.count) bytes do not come through", mend: mend)
            }
        } catch {
            return .fail(name, "\(largest.utf8.count) bytes do not come through: \(error)", mend: mend)
        }
        return .ok(name, "a message of \(largest.utf8.count) bytes came through")
    }

    private func share(_ first: Probe, _ second: Probe) throws(MQTTError) -> Check {
        let mend = "mosquitto shares by itself; EMQX: mqtt.shared_subscription = true; allow $share/+/\(topic)/#"
        guard first.offer.sharedSubscriptions != 0 else {
            return .fail("shared-subscriptions", "the broker has none: coordinators cannot share the load", mend: mend)
        }
        let third = try Probe(configuration(3))
        let fourth = try Probe(configuration(4))
        defer {
            third.disconnect()
            fourth.disconnect()
        }
        for probe in [third, fourth] { try probe.subscribe("$share/doctor-\(id)/\(topic)/shared") }
        for number in 0..<Bounds.shared { _ = try first.publish(message("shared", "\(number)")) }
        _ = try third.wait { () in
            (try? fourth.receive(1)) != nil && third.messages.count + fourth.messages.count >= Bounds.shared
        }
        // A message that comes twice would come now.
        _ = try third.wait(Bounds.quiet) { false }
        try fourth.receive(1)
        let (left, right) = (third.messages.count, fourth.messages.count)
        guard left + right == Bounds.shared else {
            return .fail(
                "shared-subscriptions", "of \(Bounds.shared) messages \(left + right) came to a group of two",
                mend: mend)
        }
        guard left > 0, right > 0 else {
            return .warn(
                "shared-subscriptions", "all messages went to the same member of a group of two",
                mend: "EMQX: mqtt.shared_subscription_strategy = round_robin")
        }
        return .ok(
            "shared-subscriptions", "\(Bounds.shared) messages came once each, \(left) and \(right) to two members")
    }

    /// A broker that heeds the expiry tells receivers how much of the time is left (MQTT 5, section 3.3.2.3.3).
    private func expire(_ first: Probe, _ second: Probe) throws(MQTTError) -> Check {
        _ = try first.publish(message("expiry", "1", expiry: Bounds.expiry))
        let left = try second.message(on: "\(topic)/expiry")?.expirySeconds
        guard let left, left <= Bounds.expiry, left + 10 >= Bounds.expiry else {
            return .fail(
                "message-expiry",
                "the broker does not pass on the expiry of a message: phones would ring for ended calls",
                mend: "use a broker with message expiry, such as mosquitto 2, EMQX 5 or FlashMQ")
        }
        return .ok("message-expiry", "\(left) of \(Bounds.expiry) s were left at the receiver")
    }

    private func will(_ second: Probe) throws(MQTTError) -> Check {
        var configuration = configuration(5)
        configuration.will = message("will", "gone")
        let dying = try Probe(configuration)
        dying.breakOff()
        guard try second.message(on: "\(topic)/will") != nil else {
            return .fail(
                "will", "no will within 5 s of the end of a connection: a device that is gone stays online",
                mend: "allow wills at the broker, and \(topic)/will for this identity")
        }
        return .ok("will", "the will of a broken connection came")
    }

    private func retain(_ first: Probe) throws(MQTTError) -> Check {
        guard first.offer.retainAvailable != 0 else { return .ok("retained", "the broker keeps no retained messages") }
        let mend = "mosquitto: retain_available false; EMQX: mqtt.retain_available = false"
        guard try first.publish(message("retained", "1", retain: true)) else {
            return .ok("retained", "the broker refuses a retained message")
        }
        let late = try Probe(configuration(6))
        defer { late.disconnect() }
        try late.subscribe("\(topic)/retained", wantsRetained: true)
        let kept = try late.message(on: "\(topic)/retained", within: Bounds.quiet)
        // An empty retained message removes the message.
        _ = try first.publish(message("retained", retain: true))
        guard kept != nil else {
            return .ok("retained", "a retained message is not kept")
        }
        return .warn(
            "retained", "the broker keeps retained messages, by which a client may leave old requests to others",
            mend: mend)
    }

    /// The time of an answer by a second connection beside the time of two PINGREQs.
    private func hurry(_ first: Probe, _ second: Probe) throws(MQTTError) -> Check {
        var pings: [Double] = []
        var trips: [Double] = []
        try first.subscribe("\(topic)/answer/#")
        for number in 0..<9 {
            pings.append(try first.ping() + second.ping())
            let begin = SystemClock.boot.microseconds
            try first.send(message("question/\(number)"))
            guard try second.message(on: "\(topic)/question/\(number)") != nil else { continue }
            try second.send(message("answer/\(number)"))
            guard try first.message(on: "\(topic)/answer/\(number)") != nil else { continue }
            trips.append(Double(SystemClock.boot.microseconds - begin) / 1_000)
        }
        guard !trips.isEmpty else {
            return .fail("small-packets", "no answer came back", mend: "allow this identity \(topic)/answer")
        }
        let (ping, trip) = (pings.sorted()[pings.count / 2], trips.sorted()[trips.count / 2])
        let seen = "an answer by a second connection takes \(tenths(trip)) ms, two PINGREQs \(tenths(ping)) ms"
        guard trip - ping > Bounds.smallPackets else { return .ok("small-packets", seen) }
        return .warn(
            "small-packets", seen + ": the broker holds small packets back (Nagle)",
            mend: """
                mosquitto: set_tcp_nodelay true; FlashMQ: tcp_nodelay true in each listen block; \
                EMQX: listeners.tcp.default.tcp_options.nodelay = true
                """)
    }

    private func tenths(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

    private func wrongToken() -> Check {
        var wrong = configuration(7)
        wrong.certificateFile = nil
        wrong.certificateKeyFile = nil
        wrong.broker.username = "doctor"
        wrong.broker.password = "wrong"
        do throws(MQTTError) {
            let probe = try Probe(wrong)
            probe.disconnect()
        } catch {
            if "\(error)".contains("certificate required") {
                return .ok("wrong-token", "the broker refuses who shows no certificate")
            }
            return error.kind == .refused || error.isAboutCredentials
                ? .ok("wrong-token", "the broker refuses a wrong token")
                : .warn("wrong-token", "a connection with a wrong token ended: \(error)", mend: "see the broker's log")
        }
        return hasCredentials
            ? .fail(
                "wrong-token", "the broker takes a wrong token: anybody can be anybody",
                mend: "load the plugin, or set up the broker's JWT authentication (docs/deployment.md)")
            : .warn(
                "wrong-token", "the broker checks no tokens: anybody can be anybody",
                mend: "for production set up tokens (docs/deployment.md, Tokens)")
    }
}
