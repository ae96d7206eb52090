import SignalingProtocol

/// The metrics that `/metrics` shows.
package enum Metric: Int, Sendable, CaseIterable {
    case messagesReceived
    case messagesSent
    case messagesDropped
    case messagesRefused
    case limited
    case requests
    case responses
    case eventsSent
    case eventsResent
    case eventsTrimmed
    case acks
    case staleAcks
    case signals
    case peerMessages
    case traceEntriesDropped
    case heartbeats
    case presence
    case deadlines
    case callsCreated
    case callsEnded
    case commits
    case conflicts
    case unreadableRecords
    case storeRoundTrips
    case storeErrors
    case storeClockSteps
    case listEntriesMended
    case recordsCleaned
    case lookups
    case refusedEarly
    case resendsPutOff
    case resendsHeldBack
    case deadLetters
    case revisionsDeleted
    case callsNotPushed
    case publicationsDropped
    case publicationsRefused
    case messagesRelayed
    case brokerConnections
    case mediaSessions
    case mediaSessionsFailed
}

/// The amounts that a decision adds to metrics when its commit wins. After a lost commit, the next decision counts
/// anew.
package struct Counts {
    package private(set) var entries: [(metric: Metric, label: String?, count: Int)] = []
    /// The users who met a limit, with the limit.
    package private(set) var limited: [(user: UserID, limit: String)] = []

    package init() {}

    package mutating func add(_ metric: Metric, _ count: Int = 1) { entries.append((metric, nil, count)) }

    package mutating func add(_ metric: Metric, _ label: String, _ count: Int = 1) {
        entries.append((metric, label, count))
    }

    /// Counts that a user met a limit.
    package mutating func addLimited(_ user: UserID, by limit: String) {
        add(.limited, limit)
        limited.append((user, limit))
    }
}
