import SignalingProtocol

package typealias Presence = [UserID: [DevicePresence]]

/// All facts that a decision may use beside its record. The facts do not change during a decision. When a fact is
/// missing, the decision throws `Undecided`, the caller queries the store, and the decision starts again from the
/// beginning.
package struct Facts {
    /// The time of the decision, by the store's clock.
    package var now: Milliseconds = 0
    /// The time since when messages have been coming without a break. Silence of members before this time does not
    /// count.
    package var listeningSince: Milliseconds = 0
    package var presence: Presence = [:]
    /// The call that holds each claim, read before the records of the holding calls.
    package var holders: [Claim: ClaimHolder?] = [:]
    /// Holders that can no longer come to deserve their claims, because another writer has changed their version since
    /// the query.
    package var fenced: Set<ClaimHolder> = []
    /// The number of repeated queries for a claim's holder.
    package var looks: [Claim: Int] = [:]
    package var records: [RecordID: StoredRecord?] = [:]
    /// The calls to which aliases point, as read after the alias.
    package var targets: [CallID: StoredRecord?] = [:]
    package var profiles: [UserID: UserProfile?] = [:]
    package var blocks: [Block: Bool] = [:]
    /// The users' live calls, the newest first, up to the limit of the query.
    package var liveCalls: [UserID: [CallID]] = [:]
    /// The live invitations of each inviting user.
    package var liveInvitations: [UserID: OutstandingNumber] = [:]
    /// The number of bytes that the store keeps because of a user.
    package var storedBytes: [UserID: Int] = [:]
    /// The number of queued peer messages for a user, counted up to a limit. `waitingMessages` is the number of a
    /// sender's queued messages.
    package var inboxes: [UserID: Int] = [:]
    package var waitingMessages: [UserID: Int] = [:]
    /// The sessions of the devices that sent the messages of the batch.
    package var sessions: [DeviceAddress: String] = [:]
    package var timelines: [CallID: Timeline] = [:]
    /// Whether the deployment sends pushes. Without pushes, registrations have no effect.
    package var isPushing = false
    /// Whether any device of a user is registered for pushes.
    package var registered: [UserID: Bool] = [:]

    package init() {}

    /// Returns the current session of a device that sent a message; empty for a device that publishes no presence.
    func session(of device: DeviceAddress) -> String { sessions[device] ?? "" }
}

/// The reason that a decision is not possible yet.
package enum Undecided: Error {
    /// The decision needs facts from the store: records, presence, claims, profiles, blocks, live calls, outstanding
    /// entries, stored bytes.
    case needs(Lookup)
    /// The decision needs the call to which an alias points.
    case target(CallID)
    case timeline(CallID)
    /// The holder of the claim is most likely about to be committed. The caller must query the holder again in a
    /// moment.
    case wait(Claim)
    /// The holder of the claim does not deserve the claim. The caller must change the holder's version, so that a
    /// pending commit of the holder loses.
    case fence(Claim)
}

/// The state of the limits. A decision only reads this state; the caller takes the tokens that a decision has reserved.
package protocol Allowances: AnyObject {
    /// Returns the milliseconds until a further token may be taken from a limit in addition to the `reserved` tokens;
    /// nil when a token may be taken now.
    func wait(for key: RateLimiter.Key, besides reserved: Int, now: Milliseconds) -> Int?
    /// Returns the milliseconds until bytes may be sent because of the user; nil when they may be sent now.
    func wait(forBytesOf user: UserID, now: Milliseconds) -> Int?
    /// Returns the limit and the milliseconds until the next attempt when an invitation or message of about `bytes`
    /// bytes may not be sent from `sender` to `recipient` now; nil when the message may be sent.
    func refusal(
        of bytes: Int, from sender: UserID, to recipient: UserID, now: Milliseconds
    ) -> (limit: RateLimiter.Key, retryAfter: Int)?
    /// Whether an event or message may be resent to a device that may acknowledge late or not at all.
    func mayResend(_ candidate: ResendPacing.Candidate, to target: ResendPacing.Target, now: Milliseconds) -> Bool
    /// Whether a device with a stale ack may get its delivery at once.
    func mayAnswer(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) -> Bool
}
