import CallCore
import MQTTClient
import SignalingProtocol
import Support
import Tokens

/// The identity of a coordinator, its brokers, and its settings.
package struct CoordinatorConfiguration: Sendable {
    /// The deployment's brokers, 1 to `BrokerSet.mostBrokers`.
    package let brokers: [BrokerAddress]
    /// The MQTT client id, unique among the coordinators.
    package var id: String
    /// The share group: the broker hands each message to a single coordinator of the group.
    package var group = "coordinators"
    /// The QoS of messages to devices. With QoS 0, receipts of peer messages and a message a second have QoS 1 all the
    /// same.
    package var publishQoS = QoS.atMostOnce
    package var certificateAuthorityFile: String?
    package var certificateFile: String?
    package var certificateKeyFile: String?
    /// The file with the token that is this coordinator's password at the broker. The file is read for each connection,
    /// so that the token may be replaced.
    package var tokenFile: String?
    /// The endpoints of webhooks in this coordinator's settings.
    package var endpoints: [KeptEndpoint] = []
    /// The TURN servers that `welcome` tells to devices, with credentials; nil for none.
    package var turn: TurnServers?
    /// Returns a media session for a member; nil for a coordinator without settings of media servers.
    package var mediaSession: (@Sendable (MediaMember, WallTime) -> BellwireMediaSession?)?
    /// Called with a call that has ended and may have a timeline; nil when nobody sends the timeline on.
    package var onTimelineEnd: (@Sendable (CallID) -> Void)?
    /// Returns an additional explanation for a failed connection, given the error and the password that was sent.
    package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }
    package var settings = ServiceSettings()

    package init(brokers: [BrokerAddress], id: String) {
        self.brokers = brokers
        self.id = id
    }
}
