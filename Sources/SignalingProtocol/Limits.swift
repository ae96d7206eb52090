/// The bounds of the wire protocol (docs/protocol.md, sections 1 and 2). Some bounds are the defaults of settings that
/// an operator may change; the other bounds are fixed.
package enum Limits {
    /// The largest request, in bytes.
    package static let requestBytes = 64 * 1024
    /// The largest message that the service sends, in bytes.
    package static let downBytes = 256 * 1024
    /// The largest message that the service parses, in bytes; the service refuses larger messages unread.
    package static let parsedBytes = 1024 * 1024
    /// The largest MQTT 5 Correlation Data of a request, in bytes. The service sends the data back with the response.
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
    /// The largest `data` of a signal or a peer message, in bytes of JSON.
    package static let dataBytes = 32 * 1024
    /// The bound is the largest range of whole numbers that a double holds exactly: clients in other languages count in
    /// doubles.
    package static let sequenceNumber: ClosedRange<Int> = 0...(1 << 53 - 1)
    package static let signalRecipients = 100
    /// Seconds.
    package static let messageTTL: ClosedRange<Int> = 1...600
    package static let callsPerPage = 100
    package static let cursorBytes = 128
    package static let usersPerQuery = 100
    /// The bound on users that a user may block at the same time.
    package static let blockedUsers = 500
    package static let userNameBytes = 256
    package static let avatarURLBytes = 512
    /// Milliseconds from the member's own start to a milestone.
    package static let milestone: ClosedRange<Int64> = 0...86_400_000
    package static let milestonesPerDevice = 32
    /// The bound on milestones that are kept for all devices of a user, per call. The bound is per user, so that a
    /// member's reports leave room for the other members' reports.
    package static let milestonesPerUser = 64
    /// The bound on entries of a call's timeline; the service drops the oldest entries.
    package static let traceEntries = 200
    /// The largest token or endpoint for pushes, in bytes.
    package static let pushTokenBytes = 4096
}
