import CallCore
import MQTTClient
import Tokens

/// Who a coordinator is, and where its broker is.
package struct CoordinatorConfiguration: Sendable {
    package var broker: BrokerAddress
    /// The MQTT client id, unique among the coordinators.
    package var id: String
    /// The share group: the broker hands each message to one coordinator of the group.
    package var group = "coordinators"
    package var publishQoS = QoS.atLeastOnce
    package var certificateAuthorityFile: String?
    package var certificateFile: String?
    package var certificateKeyFile: String?
    /// Where the token stands that is this coordinator's password at the broker. Read for each connection, so that it may be
    /// replaced.
    package var tokenFile: String?
    /// Endpoints of webhooks that this coordinator's settings name.
    package var endpoints: [KeptEndpoint] = []
    /// Told to devices in `welcome`; nil for none.
    package var turn: TurnServers?
    /// What is known here of why a connection failed, beside the error; it is given what was shown as the password.
    package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }
    package var settings = ServiceSettings()

    package init(broker: BrokerAddress, id: String) {
        self.broker = broker
        self.id = id
    }
}
