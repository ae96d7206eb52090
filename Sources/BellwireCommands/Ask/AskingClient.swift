import BellwireClient
import MQTTClient
import SignalingProtocol

/// A client that only sends requests in a user's name, without presence: the user's phones ring as without this client.
enum AskingClient {
    static let options =
        [
            Option("as", "USER", "your user id; required")
        ] + BrokerAccess.options + [
            Option("topic-root", "TOPIC", default: Topics.defaultRoot, "the root of all topics"),
            Option("within", "DURATION", default: "10s", "how long to try"),
        ]

    static func make(_ arguments: Arguments) throws(UsageError) -> SignalingClient {
        var configuration = try BrokerAccess.configuration(
            try arguments.required("as", "a user id of 1 to 64 bytes", UserID.init),
            DeviceID("asks-" + randomHex(bytes: 6))!, arguments)
        configuration.topics = try arguments.required("topic-root", Topics.rootForm, Topics.init(root:))
        let limit = try arguments.milliseconds("within", in: 100...600_000)
        configuration.connectTimeout = .milliseconds(limit)
        configuration.requestTimeout = .milliseconds(limit)
        configuration.publishesPresence = false
        return SignalingClient(configuration)
    }
}
