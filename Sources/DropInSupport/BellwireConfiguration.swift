public import BellwireClient

/// The address of the Bellwire deployment and the id of this device. All drop-ins use this type.
public struct BellwireConfiguration: Sendable {
    /// The broker's address: `mqtt://host[:port]`, or `mqtts://` for TLS.
    public var broker: String
    /// The app's own MQTT client, instead of a connection to `broker`; nil for Bellwire's client. `BellwireTransport`
    /// says what is expected of a transport.
    public var transport: (any BellwireTransport)?
    /// The id of this device among the user's devices: 1–64 of `A-Z a-z 0-9 . _ ~ -`. When nil, an id is made once for
    /// this installation, and kept (`DeviceID.ofThisInstallation`).
    public var device: String?
    /// The root of the deployment's topics (docs/protocol.md, section 1).
    public var topicRoot = "bellwire/v1"
    /// Returns a token for the user who logs in, where the broker checks tokens. The drop-in calls the provider in
    /// three cases: before the first connection, if the app has passed no token with its login; a minute before a token
    /// ends; and when the broker refuses the present token.
    public var tokenProvider: (@Sendable (_ userID: String) async throws -> String)?

    /// Takes the lines of the log of the client under the drop-in, such as why the broker refuses a connection
    /// (`SignalingClient.Configuration.log`). Called on any thread; returns soon.
    public var log: (@Sendable (BellwireLogLevel, String) -> Void)?
    /// The name under which the deployment's push settings list this app, for the registration of push tokens: 1–64 of
    /// the characters `A-Z a-z 0-9 _ -` (docs/push.md).
    public var pushApp = "default"
    /// The name for builds from Xcode, whose push tokens belong to Apple's sandbox; otherwise like `pushApp`.
    public var sandboxPushApp = "sandbox"

    public init(broker: String) { self.broker = broker }

    /// Creates a configuration over the app's own MQTT client.
    public init(transport: any BellwireTransport) {
        broker = ""
        self.transport = transport
    }
}
