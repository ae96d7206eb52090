import SignalingProtocol

extension SignalingClient.Configuration {
    /// Creates a configuration from texts.
    ///
    /// - Throws: `badRequest` naming `user` or `device`, when the text is not a valid id (docs/protocol.md, section 1).
    public init(user: String, device: String, transport: any BellwireTransport) throws(SignalingError) {
        let userID = try UserID(word: user)
        guard let deviceID = DeviceID(device) else {
            throw SignalingError(.badRequest, "device: 1 to 64 of A-Z a-z 0-9 . _ ~ -")
        }
        self.init(user: userID, device: deviceID, transport: transport)
    }
}

extension UserID {
    /// - Throws: `badRequest` for a text that is not a user id.
    package init(word: String) throws(SignalingError) {
        guard let user = UserID(word) else {
            throw SignalingError(.badRequest, "user: a user id has 1 to 64 bytes of UTF-8, without control characters")
        }
        self = user
    }
}
