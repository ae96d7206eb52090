#if canImport(ObjectiveC)
    internal import Foundation
#endif

/// The state of a user in a call (docs/protocol.md, section 3).
#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMCallUserState: Int, Sendable {
    case unknown = -1
    case inviting = 0
    case accepted = 1
    case rejected = 2
    case cancelled = 3
    /// Never reported: an offline invitee is `inviting`, and rings once a device of the invitee is online.
    case offline = 4
    case received = 5
    case timeout = 6
    case quit = 7
    /// Never reported: states stay when a call ends.
    case end = 8
    case notYetReceived = 9
    /// Never reported.
    case beCancelled = 10
}

/// The mode of a call, which decides its end.
#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMCallInvitationMode: Int, Sendable {
    case unknown = -1
    /// The call ends as soon as no invitation is pending.
    case general = 0
    /// The call lives until `callEnd`.
    case advanced = 1
}

#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMCallState: Int, Sendable {
    case unknown = -1
    case started = 1
    case ended = 2
}

#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMConnectionState: UInt, Sendable {
    case disconnected = 0
    case connecting = 1
    case connected = 2
    case reconnecting = 3
}

#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMConnectionEvent: UInt, Sendable {
    case success = 0
    case activeLogin = 1
    case loginTimeout = 2
    case loginInterrupted = 3
    case kickedOut = 4
    case tokenExpired = 5
    case unregistered = 6
}

#if canImport(ObjectiveC)
    @objc
#endif
public enum ZIMCXHandleType: Int, Sendable {
    case generic = 1
    case phoneNumber = 2
    case emailAddress = 3
}
