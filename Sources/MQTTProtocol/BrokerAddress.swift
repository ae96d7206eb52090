import Basics

/// The address of the broker: `mqtt://[user[:password]@]host[:port]`, or `mqtts://` for TLS.
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

    /// Parses `url`; returns nil when `url` has another form. User and password may be percent-encoded.
    public init?(url text: String) {
        guard let url = ServerURL(text), ["mqtt", "mqtts"].contains(url.scheme), url.path.isEmpty else { return nil }
        // A password without a user cannot be sent to a broker of MQTT 3.1.1, and is probably a mistake.
        guard url.username != nil || url.password == nil else { return nil }
        isTLS = url.scheme == "mqtts"
        host = url.host
        port = url.port ?? (isTLS ? 8883 : 1883)
        username = url.username
        password = url.password
    }

    /// Parses the addresses of several brokers, with commas between them. An entry that is no address is nil.
    package static func list(_ text: String) -> [BrokerAddress?] {
        // A single address may have a comma in its password.
        if let address = BrokerAddress(url: text) { return [address] }
        return text.split(separator: ",", omittingEmptySubsequences: false).map { BrokerAddress(url: String($0)) }
    }

    /// `host:port`: the name of the broker in presence, `/readyz` and metrics.
    package var name: String { ServerURL.authority(host: host, port: port) }

    /// The address without the credentials, for logs.
    public var description: String {
        "\(isTLS ? "mqtts" : "mqtt")://\(name)"
    }
}
