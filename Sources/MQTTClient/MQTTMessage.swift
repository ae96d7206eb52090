/// Quality of service (MQTT 5, section 4.3). Bellwire never needs exactly-once: requests are idempotent.
public enum QoS: Int32, Sendable {
    case atMostOnce = 0
    case atLeastOnce = 1
}

/// A message as received or to be published.
public struct MQTTMessage: Sendable, Equatable {
    public var topic: String
    public var payload: [UInt8]
    public var qos: QoS
    /// Received: a stale copy that the broker had kept, not a live message.
    public var retain: Bool
    /// MQTT 5, section 3.3.2.3.6.
    public var correlationData: [UInt8]?
    /// Seconds after which the broker drops the message undelivered (MQTT 5, section 3.3.2.3.3).
    public var expirySeconds: UInt32?

    public init(
        topic: String, payload: [UInt8], qos: QoS = .atLeastOnce, retain: Bool = false,
        correlationData: [UInt8]? = nil, expirySeconds: UInt32? = nil
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.correlationData = correlationData
        self.expirySeconds = expirySeconds
    }
}

/// A failure of the connection or of one operation on it.
public struct MQTTError: Error, Sendable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// The broker cannot be reached.
        case unreachable
        /// The broker answered CONNECT with a refusal.
        case refused
        /// The connection is gone.
        case lost
        /// The message cannot be published as it is.
        case invalid
        /// TLS settings that cannot be used.
        case tls
    }

    public let kind: Kind
    public let message: String

    public init(kind: Kind, message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { message }
}

/// Where the broker is: `mqtt://[user[:password]@]host[:port]`, or `mqtts://` for TLS.
public struct BrokerAddress: Sendable, Equatable, CustomStringConvertible {
    public var host: String
    public var port: Int
    public var username: String?
    public var password: String?
    public var isTLS: Bool

    public init(host: String, port: Int, username: String? = nil, password: String? = nil, isTLS: Bool = false) {
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.isTLS = isTLS
    }

    /// Nil when `url` is not of this form. User and password may be percent-encoded.
    public init?(url: String) {
        var rest = Substring(url)
        if rest.hasPrefix("mqtt://") {
            isTLS = false
            rest = rest.dropFirst("mqtt://".count)
        } else if rest.hasPrefix("mqtts://") {
            isTLS = true
            rest = rest.dropFirst("mqtts://".count)
        } else {
            return nil
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        if let at = rest.lastIndex(of: "@") {
            let credentials = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let user = Self.decode(credentials[0]), !user.isEmpty else { return nil }
            username = user
            if credentials.count == 2 {
                guard let secret = Self.decode(credentials[1]) else { return nil }
                password = secret
            }
            rest = rest[rest.index(after: at)...]
        }
        port = isTLS ? 8883 : 1883
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            rest = rest[rest.index(after: end)...]
        } else {
            let end = rest.firstIndex(of: ":") ?? rest.endIndex
            host = String(rest[..<end])
            rest = rest[end...]
        }
        if rest.hasPrefix(":") {
            guard rest.dropFirst().utf8.allSatisfy(isDigit), let value = Int(rest.dropFirst()),
                (1...65535).contains(value)
            else { return nil }
            port = value
        } else if !rest.isEmpty {
            return nil
        }
        guard !host.isEmpty, host.utf8.allSatisfy(isHostByte) else { return nil }
    }

    /// Without the credentials: this goes into logs.
    public var description: String {
        "\(isTLS ? "mqtts" : "mqtt")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }

    private static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next(), let low = rest.next(), high != UInt8(ascii: "+"), high != UInt8(ascii: "-"),
                let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(value)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

/// Letters, digits, and what stands in names and in IPv6 addresses.
private func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "."),
        UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "%"):
        true
    default: isDigit(byte) || byte >= 0x80
    }
}
