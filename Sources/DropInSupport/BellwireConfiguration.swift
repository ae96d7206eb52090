/// Where the Bellwire deployment is, and who this device is there. The same for all drop-ins.
public struct BellwireConfiguration: Sendable {
    /// `mqtt://host[:port]`, or `mqtts://` for TLS.
    public var broker: String
    /// The id of this device among its user's: 1–64 of `A-Z a-z 0-9 . _ ~ -`. Nil: one that is made once for this installation, and kept
    /// (`DeviceID.ofThisInstallation`).
    public var device: String?
    /// The topics of the deployment (docs/protocol.md, section 1).
    public var topicRoot = "bellwire/v1"
    /// Gives a token for the user who logs in, where the broker checks tokens: before the first connection, unless the app gave one with its
    /// login, a minute before a token ends, and when the broker refuses the one there is.
    public var tokenProvider: (@Sendable (_ userID: String) async throws -> String)?

    public init(broker: String) { self.broker = broker }
}
