/// The bounds of the wire protocol (docs/protocol.md, sections 1 and 2). Those that an operator may change are
/// defaults of settings; the others are fixed.
public enum Limits {
    /// A request may be this large, in bytes.
    public static let requestBytes = 64 * 1024
    /// What the service sends may be this large, in bytes.
    public static let downBytes = 256 * 1024
    /// Beyond this, in bytes, a message is refused without being parsed.
    public static let parsedBytes = 1024 * 1024
    /// MQTT 5 Correlation Data of a request: given back with every answer.
    public static let correlationDataBytes = 1024
    public static let inviteesPerRequest = 9
    public static let extendedDataBytes = 2048
    public static let mediaBytes = 32
    public static let reasonBytes = 256
    public static let pushFieldBytes = 2048
    public static let sessionBytes = 64
    /// Seconds.
    public static let invitationTimeout: ClosedRange<Int> = 1...600
    /// Seconds.
    public static let notReceivedAfter: ClosedRange<Int> = 1...30
    /// What a signal or a peer message carries, in bytes of JSON.
    public static let dataBytes = 32 * 1024
    /// Up to what a double holds exactly: clients in other languages count in doubles.
    public static let sequenceNumber: ClosedRange<Int> = 0...(1 << 53 - 1)
    public static let signalRecipients = 100
    /// Seconds.
    public static let messageTTL: ClosedRange<Int> = 1...600
    public static let callsPerPage = 100
    public static let cursorBytes = 128
    public static let usersPerQuery = 100
    /// Whom one user may have blocked at the same time.
    public static let blockedUsers = 500
    public static let userNameBytes = 256
    public static let avatarURLBytes = 512
    /// Milliseconds from a party's own start to a milestone.
    public static let milestone: ClosedRange<Int64> = 0...86_400_000
    public static let milestonesPerDevice = 32
    /// Of all devices of one user, per call: whatever one member reports, the others have their own room.
    public static let milestonesPerUser = 64
    /// Entries of a call's timeline; the oldest are dropped.
    public static let traceEntries = 200
    /// A token or endpoint for pushes, in bytes.
    public static let pushTokenBytes = 4096
}
