import BellwireClientCore
import MQTTClient

extension SignalingClient.Configuration {
    /// Over Bellwire's own MQTT client, to this broker.
    public init(user: UserID, device: DeviceID, broker: BrokerAddress, certificateAuthorityFile: String? = nil) {
        self.init(
            user: user, device: device,
            transport: MQTTTransport(broker: broker, certificateAuthorityFile: certificateAuthorityFile))
    }

    /// The same in words: `mqtt://` or `mqtts://` with host and port, user and device as texts. Without a device it is this
    /// installation's (`DeviceID.ofThisInstallation`).
    ///
    /// - Throws: `badRequest`, which names the word that is not of its form; also when all devices of this installation are in use.
    public init(
        user: String, broker: String, device: String? = nil, certificateAuthorityFile: String? = nil
    ) throws(SignalingError) {
        guard let address = BrokerAddress(url: broker) else {
            throw SignalingError(.badRequest, "broker: mqtt://[user[:password]@]host[:port] or mqtts://")
        }
        let transport = MQTTTransport(broker: address, certificateAuthorityFile: certificateAuthorityFile)
        // `??` does not keep the error's type.
        let name: String = if let device { device } else { try InstallationDevice.ofThisProcess().string }
        try self.init(user: user, device: name, transport: transport)
    }
}
