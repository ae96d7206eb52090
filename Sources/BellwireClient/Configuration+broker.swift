import BellwireClientCore
import MQTTProtocol

extension SignalingClient.Configuration {
    /// Creates a configuration over Bellwire's own MQTT client, with a connection to `broker`.
    public init(user: UserID, device: DeviceID, broker: BrokerAddress, certificateAuthorityFile: String? = nil) {
        self.init(
            user: user, device: device,
            transport: MQTTTransport(broker: broker, certificateAuthorityFile: certificateAuthorityFile))
    }

    /// Creates a configuration from texts: the broker as `mqtt://` or `mqtts://` with host and port, or several brokers
    /// with commas between them, the user and the device. Without `device` the client uses the device id of this
    /// installation (`DeviceID.ofThisInstallation`).
    ///
    /// - Throws: `badRequest` naming `user`, `broker` or `device`, when the text is not valid or names a broker twice;
    ///   also when all device ids of this installation are in use.
    public init(
        user: String, broker: String, device: String? = nil, certificateAuthorityFile: String? = nil,
        tokenProvider: (@Sendable () async throws -> String)? = nil
    ) throws(SignalingError) {
        let transports = try Self.addresses(broker).map {
            MQTTTransport(broker: $0, certificateAuthorityFile: certificateAuthorityFile)
        }
        // `??` does not keep the error's type.
        let name: String = if let device { device } else { try InstallationDevice.ofThisProcess().string }
        try self.init(
            user: user, device: name,
            transport: transports.count == 1 ? transports[0] : TransportList(transports))
        self.tokenProvider = tokenProvider
    }

    private static func addresses(_ text: String) throws(SignalingError) -> [BrokerAddress] {
        var addresses: [BrokerAddress] = []
        for address in BrokerAddress.list(text) {
            guard let address else {
                throw SignalingError(
                    .badRequest, "broker: mqtt://[user[:password]@]host[:port] or mqtts://, several with commas")
            }
            guard !addresses.contains(where: { $0.name == address.name }) else {
                throw SignalingError(.badRequest, "broker: \(address.name) is named twice")
            }
            addresses.append(address)
        }
        return addresses
    }
}
