import SignalingProtocol

package typealias Presence = [UserID: [DevicePresence]]

/// Everything that a decision may know beside the record it is about. It does not change while something is decided; what is not in it
/// is asked for (`Undecided`), found by who decides nothing, and then it is decided again from the beginning.
package struct Facts {
    /// As of when it is decided, by the store's clock.
    package var now: Milliseconds = 0
    /// Since when messages have been coming without a break; silence of members before that does not count.
    package var listeningSince: Milliseconds = 0
    package var presence: Presence = [:]
    /// Which call holds each claim; read before the records of those calls.
    package var holders: [Claim: ClaimHolder?] = [:]
    /// Holders that will not come to deserve what they hold: somebody has changed their version since they were looked at.
    package var fenced: Set<ClaimHolder> = []
    /// How often a claim's holder was looked at again.
    package var looks: [Claim: Int] = [:]
    package var records: [RecordID: StoredRecord?] = [:]
    /// Calls to which aliases point, as they were when the alias was met.
    package var targets: [CallID: StoredRecord?] = [:]
    package var profiles: [UserID: UserProfile?] = [:]
    package var blocks: [Block: Bool] = [:]
    /// Users' live calls, the newest first, as many as are looked at.
    package var liveCalls: [UserID: [CallID]] = [:]
    /// The live invitations of each user who invites.
    package var liveInvitations: [UserID: OutstandingNumber] = [:]
    /// How many bytes are kept because of a user.
    package var storedBytes: [UserID: Int] = [:]
    /// How many messages wait for a user, as far as they are counted, and of one.
    package var inboxes: [UserID: Int] = [:]
    package var waitingMessages: [UserID: Int] = [:]
    /// The sessions of the devices that sent the messages being served.
    package var sessions: [DeviceAddress: String] = [:]
    package var timelines: [CallID: Timeline] = [:]
    /// The deployment pushes: only then it matters who is registered.
    package var isPushing = false
    /// Whether any device of a user is registered for pushes.
    package var registered: [UserID: Bool] = [:]

    package init() {}

    /// The current session of a device that sent something; empty for one that publishes no presence.
    func session(of device: DeviceAddress) -> String { sessions[device] ?? "" }
}

/// Why nothing can be decided yet.
package enum Undecided: Error {
    /// This has to be known: records, presence, claims, profiles, blocks, live calls, what is outstanding and kept.
    case needs(Lookup)
    /// The call to which an alias points.
    case target(CallID)
    case timeline(CallID)
    /// The holder of the claim is most likely about to be committed: it is looked at again, in a moment.
    case wait(Claim)
    /// The holder of the claim does not deserve it: once its version is changed it will not come to.
    case fence(Claim)
}

/// What may still be taken of limits. Deciding asks and takes nothing; who serves takes what a decision has reserved.
package protocol Allowances: AnyObject {
    /// The milliseconds until one more may be taken of a limit, beside so many that are reserved; nil when it may be now.
    func wait(for key: RateLimiter.Key, besides reserved: Int, now: Milliseconds) -> Int?
    /// The milliseconds until bytes may be sent because of the user; nil when they may be now.
    func wait(forBytesOf user: UserID, now: Milliseconds) -> Int?
    /// The limit, and the milliseconds after which to try again, when an invitation or message of about so many bytes may not be sent from
    /// one user to another now; nil when it may.
    func refusal(
        of bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds
    ) -> (limit: RateLimiter.Key, retryAfter: Int)?
    /// Whether an event or message may be sent again to a device, which may acknowledge late or not at all.
    func mayResend(_ candidate: ResendPacing.Candidate, to target: ResendPacing.Target, now: Milliseconds) -> Bool
    /// Whether a device that acked an old revision may be told at once what it is owed.
    func mayAnswer(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) -> Bool
}
