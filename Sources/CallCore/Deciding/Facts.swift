import SignalingProtocol

package typealias Presence = [UserID: [DevicePresence]]

/// All facts that a decision may use beside its record. The facts do not change during a decision. When a fact is
/// missing, the decision throws `Undecided`, the caller queries the store, and the decision starts again from the
/// beginning.
package struct Facts {
    /// An answer about something that may be absent. A fact that was not read has no entry at all.
    private enum Known<Value> {
        case absent
        case present(Value)

        init(_ value: Value?) { self = value.map(Known.present) ?? .absent }

        var value: Value? { if case .present(let value) = self { value } else { nil } }
    }

    /// The time of the decision, by the store's clock.
    package var now: Milliseconds = 0
    /// The time since when messages have been coming without a break. Silence of members before this time does not
    /// count.
    package var listeningSince: Milliseconds = 0
    package private(set) var presence: Presence = [:]
    /// The call that holds each claim, read before the records of those calls.
    private var holders: [Claim: Known<ClaimHolder>] = [:]
    /// Holders that can no longer come to deserve their claims, because another writer has changed their version since
    /// the query.
    package var fenced: Set<ClaimHolder> = []
    /// The number of repeated queries for a claim's holder.
    package var looks: [Claim: Int] = [:]
    private var records: [RecordID: Known<StoredRecord>] = [:]
    /// The calls to which aliases point, as read after the alias.
    private var targets: [CallID: Known<StoredRecord>] = [:]
    private var profiles: [UserID: Known<UserProfile>] = [:]
    private var blocks: [Block: Bool] = [:]
    /// The users' live calls, the newest first, up to the limit of the query.
    private var liveCalls: [UserID: [CallID]] = [:]
    /// The live invitations of each inviting user, and the number of queued messages of each sending user.
    private var liveInvitations: [UserID: OutstandingNumber] = [:]
    private var waitingMessages: [UserID: Int] = [:]
    /// The number of bytes that the store keeps because of a user, per period of the query; `unwrittenBytes` holds the
    /// bytes that the coordinator has counted and not written yet.
    private var storedBytes: [UserID: [Int]] = [:]
    package var unwrittenBytes: [UserID: Int] = [:]
    /// The number of queued peer messages for a user, counted up to the limit of the query.
    private var inboxes: [UserID: Int] = [:]
    /// The sessions of the devices that sent the messages of the batch.
    package var sessions: [DeviceAddress: String] = [:]
    package var timelines: [CallID: Timeline] = [:]
    /// Whether the deployment sends pushes. Without pushes, registrations have no effect.
    package var isPushing = false
    /// Whether any device of a user is registered for pushes.
    private var registrations: [UserID: Bool] = [:]

    package init() {}

    // MARK: Reading

    /// Returns the current session of a device that sent a message; empty for a device that publishes no presence.
    func session(of device: DeviceAddress) -> String { sessions[device] ?? "" }

    /// Returns the presence of at least these users.
    func presence(of users: [UserID]) throws(Undecided) -> Presence {
        try require(users.filter { presence[$0] == nil }.map(Query.devices))
        return presence
    }

    func records(_ callIDs: [CallID]) throws(Undecided) -> [StoredRecord?] {
        let ids = callIDs.map(RecordID.call)
        try require(ids.filter { records[$0] == nil }.map(Query.record))
        return ids.map { records[$0]?.value }
    }

    /// Returns the record of the call to which an alias points.
    func target(_ callID: CallID) throws(Undecided) -> StoredRecord? {
        guard let known = targets[callID] else { throw .target(callID) }
        return known.value
    }

    /// Returns the call that holds the claim; nil for a claim without a holder.
    func holder(of claim: Claim) throws(Undecided) -> ClaimHolder? {
        guard let known = holders[claim] else { throw .needs([.holder(claim)]) }
        return known.value
    }

    func liveCalls(of users: [UserID]) throws(Undecided) -> [[CallID]] {
        try require(
            users.filter { liveCalls[$0] == nil }
                .map { .calls(.live(of: $0, limit: ServiceBounds.callsPerBusyCheck)) })
        return users.map { liveCalls[$0] ?? [] }
    }

    /// Returns the users in `users` who have blocked `user`.
    func blocking(_ user: UserID, among users: [UserID]) throws(Undecided) -> [UserID] {
        let pairs = users.map { Block(by: $0, of: user) }
        guard pairs.allSatisfy({ blocks[$0] != nil }) else { throw .needs(pairs.map(Query.block)) }
        return pairs.filter { blocks[$0] ?? false }.map(\.user)
    }

    /// Returns the profiles of users, without users who have no profile.
    func profiles(of users: [UserID]) throws(Undecided) -> [UserID: UserProfile] {
        guard users.allSatisfy({ profiles[$0] != nil }) else { throw .needs(users.map(Query.profile)) }
        return Dictionary(users.compactMap { user in profiles[user]?.value.map { (user, $0) } }) { $1 }
    }

    func registered(among users: [UserID]) throws(Undecided) -> [UserID] {
        try require(users.filter { registrations[$0] == nil }.map(Query.registration))
        return users.filter { registrations[$0] ?? false }
    }

    /// Returns the live invitations of an inviting user.
    func liveInvitations(of user: UserID, _ settings: ServiceSettings) throws(Undecided) -> OutstandingNumber {
        guard let number = liveInvitations[user] else { throw .needs(.quotas(of: user, settings, now: now)) }
        return number
    }

    /// Returns the number of bytes that the store keeps because of a user.
    func storedBytes(of user: UserID, _ settings: ServiceSettings) throws(Undecided) -> Int {
        guard let bytes = storedBytes[user] else { throw .needs(.quotas(of: user, settings, now: now)) }
        return settings.keptBytes(bytes, at: now) + unwrittenBytes[user, default: 0]
    }

    /// Returns the number of messages that wait for the recipient, and the number of the sender's messages that wait.
    func waitingMessages(
        from sender: UserID, to recipient: UserID
    ) throws(Undecided) -> (inbox: Int, ofSender: Int) {
        guard let inbox = inboxes[recipient], let ofSender = waitingMessages[sender] else {
            throw .needs(.waitingMessages(from: sender, to: recipient, now: now))
        }
        return (inbox, ofSender)
    }

    /// Throws unless there are no queries left.
    private func require(_ queries: [Query]) throws(Undecided) {
        guard queries.isEmpty else { throw .needs(queries.unique) }
    }

    // MARK: Learning

    /// Adds the answer to a query.
    package mutating func learn(_ query: Query, _ answer: QueryAnswer) {
        switch query {
        case .record(let id): records[id] = Known(answer.record)
        case .devices(let user): presence[user] = answer.devices
        case .holder(let claim): holders[claim] = Known(answer.holder)
        case .profile(let user): profiles[user] = Known(answer.profile)
        case .block(let block): blocks[block] = answer.isBlocked
        case .calls(let list): liveCalls[list.user] = answer.calls
        case .messages(let list): inboxes[list.user] = answer.messages.count
        case .outstanding(let count):
            switch count.kind {
            case .invitations: liveInvitations[count.user] = answer.outstanding
            case .messages: waitingMessages[count.user] = answer.outstanding.count
            }
        case .storedBytes(let periods): storedBytes[periods.user] = answer.storedBytes
        case .registration(let user): registrations[user] = answer.isRegistered
        }
    }

    /// Adds the record of the call to which an alias points.
    package mutating func learn(target callID: CallID, _ stored: StoredRecord?) { targets[callID] = Known(stored) }

    /// Whether the registrations of this user were read.
    package func knowsRegistration(of user: UserID) -> Bool { registrations[user] != nil }

    /// Adds invitations that were decided and are not written yet.
    package mutating func add(invitees: [UserID], of user: UserID) {
        liveInvitations[user, default: OutstandingNumber()].add(invitees)
    }

    /// Adds a message that was decided and is not written yet.
    package mutating func addMessage(from sender: UserID, to recipient: UserID) {
        waitingMessages[sender, default: 0] += 1
        inboxes[recipient, default: 0] += 1
    }

    // MARK: Holders of claims

    /// Returns the holder of a claim and its record, as far as both were read.
    package func knownHolder(of claim: Claim) -> (holder: ClaimHolder, stored: StoredRecord?)? {
        guard let holder = holders[claim]?.value else { return nil }
        return (holder, records[.call(holder.callID)]?.value)
    }

    /// Forgets the holder of a claim and its record, so that the decision queries both again.
    package mutating func forgetHolder(of claim: Claim) {
        if let holder = holders[claim]?.value { records[.call(holder.callID)] = nil }
        holders[claim] = nil
    }
}

/// The reason that a decision is not possible yet.
package enum Undecided: Error {
    /// The decision needs the answers to these queries.
    case needs([Query])
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
