/// The bounds of the wire protocol (docs/protocol.md, sections 1 and 2). Those that an operator may change are
/// defaults of settings; the others are fixed.
package enum Limits {
    /// A request may be this large, in bytes.
    package static let requestBytes = 64 * 1024
    /// What the service sends may be this large, in bytes.
    package static let downBytes = 256 * 1024
    /// Beyond this, in bytes, a message is refused without being parsed.
    package static let parsedBytes = 1024 * 1024
    /// MQTT 5 Correlation Data of a request: given back with every answer.
    package static let correlationDataBytes = 1024
    package static let inviteesPerRequest = 9
    package static let extendedDataBytes = 2048
    package static let mediaBytes = 32
    package static let reasonBytes = 256
    package static let pushFieldBytes = 2048
    package static let sessionBytes = 64
    /// Seconds.
    package static let invitationTimeout: ClosedRange<Int> = 1...600
    /// Seconds.
    package static let notReceivedAfter: ClosedRange<Int> = 1...30
    /// What a signal or a peer message carries, in bytes of JSON.
    package static let dataBytes = 32 * 1024
    /// Up to what a double holds exactly: clients in other languages count in doubles.
    package static let sequenceNumber: ClosedRange<Int> = 0...(1 << 53 - 1)
    package static let signalRecipients = 100
    /// Seconds.
    package static let messageTTL: ClosedRange<Int> = 1...600
    package static let callsPerPage = 100
    package static let cursorBytes = 128
    package static let usersPerQuery = 100
    /// Whom one user may have blocked at the same time.
    package static let blockedUsers = 500
    package static let userNameBytes = 256
    package static let avatarURLBytes = 512
    /// Milliseconds from a party's own start to a milestone.
    package static let milestone: ClosedRange<Int64> = 0...86_400_000
    package static let milestonesPerDevice = 32
    /// Of all devices of one user, per call: whatever one member reports, the others have their own room.
    package static let milestonesPerUser = 64
    /// Entries of a call's timeline; the oldest are dropped.
    package static let traceEntries = 200
    /// A token or endpoint for pushes, in bytes.
    package static let pushTokenBytes = 4096
}
