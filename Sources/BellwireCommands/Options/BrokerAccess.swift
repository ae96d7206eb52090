import BellwireClient
import MQTTClient
import SignalingProtocol

/// The flags by which a client in the terminal reaches the broker and authenticates.
enum BrokerAccess {
    static let options = [
        Option(
            "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
            "mqtt://[user[:password]@]host[:port] or mqtts://; several brokers with commas"),
        Option("broker-ca", "FILE", default: "", "certificate authorities to trust with mqtts://"),
        Option("token", "TOKEN", default: "", isSecret: true, "your token; better in the environment or in a file"),
        Option("token-file", "FILE", default: "", "a file with your token; read again before the token ends"),
    ]

    static func configuration(
        _ user: UserID, _ device: DeviceID, _ arguments: Arguments
    ) throws(UsageError) -> SignalingClient.Configuration {
        let authorities = try arguments.file("broker-ca")
        let cause = RefusalCause(client: .device(DeviceAddress(userID: user, deviceID: device)))
        let transports = try BrokerList.addresses(arguments).map { address in
            var transport = MQTTTransport(broker: address, certificateAuthorityFile: authorities)
            transport.cause = { cause($0, $1) }
            return transport
        }
        var configuration = SignalingClient.Configuration(
            user: user, device: device, transport: transports.count == 1 ? transports[0] : TransportList(transports))
        if let token = arguments.text("token"), !token.isEmpty { configuration.token = token }
        guard let file = try arguments.file("token-file") else { return configuration }
        configuration.tokenProvider = {
            guard let token = readSecret(file) else { throw UsageError("no token can be read from \(file)") }
            return token
        }
        return configuration
    }
}
