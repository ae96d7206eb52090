import CallCore
import SignalingProtocol

/// Where coordinators keep what must survive them (docs/architecture.md, Store).
///
/// The methods block, take batches, and throw `StoreError` when the store cannot answer. A commit is a compare-and-set
/// on the record's version; notes are merged and never conflict.
public protocol CallStore: AnyObject {
    /// The store's clock, by which all coordinators write and serve deadlines.
    func now() throws(StoreError) -> Milliseconds

    /// Asks the store for its time anew, and sees whether somebody has set its clock. To be called every half a second or so, as long as
    /// there is anything to do with the store. Whether it has written something, and so shown that it can.
    @discardableResult
    func lookAtClock() throws(StoreError) -> Bool

    // MARK: Records

    /// Reads all that is asked for, in one round trip.
    func read(_ lookup: Lookup) throws(StoreError) -> Findings

    /// Writes each record if nobody changed it meanwhile; merges the notes into what is kept beside calls; and then
    /// reads, in as few round trips as can be. The commits do not depend on each other.
    ///
    /// When it throws, each commit may have been written or not: who repeats it finds out.
    func write(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) throws(StoreError) -> Written

    /// The same in two steps, for who has something else to do while the store is at work. What was begun is done in this
    /// order, also between beginnings and other operations.
    func begin(_ lookup: Lookup) throws(StoreError) -> Pending<Findings>
    func begin(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) throws(StoreError) -> Pending<Written>

    /// Whether it works while nobody waits for it.
    var worksMeanwhile: Bool { get }

    /// Records whose deadline lies at or before `moment`, the earliest first, but for those that cannot be served.
    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) throws(StoreError) -> [RecordID]

    /// Those of the records whose deadline lies at or before `moment`, in their order.
    func due(_ ids: [RecordID], before moment: Milliseconds) throws(StoreError) -> [RecordID]

    // MARK: What belongs to a user

    /// All of the user's calls that are kept, the newest first, those of the same time by falling id; only those that
    /// stand behind `place`.
    func history(of user: UserID, after place: HistoryPlace?, limit: Int) throws(StoreError) -> [HistoryPlace]

    /// Changes a user's profile. Returns it as it is then.
    func update(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> UserProfile

    /// Lets a user's block begin or end. False when the list is full: nothing has changed then.
    func set(_ block: Block, _ isBlocked: Bool) throws(StoreError) -> Bool

    /// Whom the user has blocked, in the order of their ids.
    func blockList(of user: UserID) throws(StoreError) -> [UserID]

    /// Puts the user's list of calls right where it names calls that do not live, or in which the user is not: what coordinators left
    /// that died, or lost, in the middle of a commit. Returns how many it found; there may be more, unless there were none.
    func tidyCalls(of user: UserID) throws(StoreError) -> Int

    /// Counts what is kept because of users.
    func charge(_ charges: [StoredCharge]) throws(StoreError)

    // MARK: Presence

    /// Devices published `online: true`.
    func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) throws(StoreError) -> [OnlineOutcome]

    /// Devices published `online: false`, or their wills were published. Of each: whether that ended its current session.
    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) throws(StoreError) -> [Bool]

    /// Renews the lease of devices that sent something.
    func renew(_ devices: [DeviceAddress]) throws(StoreError)

    // MARK: Timelines

    /// Adds entries to calls' timelines, which are kept for `life` milliseconds beyond the last one.
    func trace(_ traces: [CallTrace], life: Milliseconds) throws(StoreError)

    /// The call's timeline, as far as it is kept, in the order in which it was written.
    func timeline(of callID: CallID) throws(StoreError) -> Timeline

    // MARK: The store itself

    /// Removes up to `limit` things whose time is over: ended calls, forgotten cancels, finished messages, expired
    /// presence. Returns how many were removed.
    func clean(limit: Int) throws(StoreError) -> Int

    /// A short name for logs, without credentials.
    var summary: String { get }

    /// What a crash of the store's machine may lose, for the log; nil while that is not known.
    var durability: String? { get }

    /// How far the store's time is from this machine's, in milliseconds.
    var clockSkew: Milliseconds { get }

    /// How often the clock of the store's machine was found to be set, by whichever coordinator; and by how much the last time.
    var clockSteps: (count: Int, last: Milliseconds) { get }

    /// Whether it may be out of reach for this coordinator, and not for others.
    var isShared: Bool { get }

    /// How often it was waited for since the start.
    var roundTrips: Int { get }
}

extension CallStore {
    public var clockSkew: Milliseconds { 0 }
    public var clockSteps: (count: Int, last: Milliseconds) { (0, 0) }
    public var isShared: Bool { false }
    public func lookAtClock() throws(StoreError) -> Bool { false }
    public func due(before moment: Milliseconds, limit: Int) throws(StoreError) -> [RecordID] {
        try due(before: moment, limit: limit, besides: [])
    }
    public func tidyCalls(of user: UserID) throws(StoreError) -> Int { 0 }
    public var durability: String? { nil }
    public var roundTrips: Int { 0 }
    public var worksMeanwhile: Bool { false }
}

/// The store cannot answer now.
public struct StoreError: Error, Sendable, CustomStringConvertible {
    public let description: String
    /// It was a write that failed: that reading succeeds says nothing about it.
    public internal(set) var isOfWriting: Bool
    /// The store is another deployment's (`DeploymentStamp`).
    public let isForeign: Bool

    public init(_ description: String, isOfWriting: Bool = false, isForeign: Bool = false) {
        self.description = description
        self.isOfWriting = isOfWriting
        self.isForeign = isForeign
    }
}

/// What a record is found by.
public enum RecordID: Hashable, Comparable, Sendable {
    case call(CallID)
    /// A message is at home with its recipient (docs/protocol.md, section 2, Peer messages).
    case message(MessageID, to: UserID)

    /// One text for each: no call id holds a colon.
    public var string: String {
        switch self {
        case .call(let callID): callID.string
        case .message(let messageID, let user): ":\(messageID):\(user)"
        }
    }

    /// Nil when `string` is none of these texts.
    public init?(_ string: String) {
        guard string.utf8.first == UInt8(ascii: ":") else {
            guard let callID = CallID(string) else { return nil }
            self = .call(callID)
            return
        }
        let parts = string.utf8.dropFirst().split(
            separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let messageID = String(parts[0]).flatMap(MessageID.init),
            let user = String(parts[1]).flatMap(UserID.init)
        else { return nil }
        self = .message(messageID, to: user)
    }

    public var callID: CallID? {
        if case .call(let callID) = self { callID } else { nil }
    }

    public static func < (lhs: RecordID, rhs: RecordID) -> Bool {
        lhs.string.utf8.lexicographicallyPrecedes(rhs.string.utf8)
    }
}

/// What stands under an id.
public enum Record: Equatable, Sendable {
    case call(Call)
    case message(PeerMessage)
    /// The inviter's own id of an invitation that was merged into the other user's call (section 3, Glare), with the
    /// request that made it.
    case alias(of: CallID, origin: RequestKey)
    /// A cancel that came before its invite (section 2, the fast cancel).
    case cancelled(by: UserID, at: Milliseconds)
    /// Nothing: written by who took a claim over from a call that did not exist yet, so that its first owner, waking
    /// late, loses its commit.
    case void
    /// Something damaged, or of a later version. It fails the requests on this call alone. Never written.
    case unreadable
}

/// A record as stored, with what is kept beside it.
public struct StoredRecord: Equatable, Sendable {
    public let id: RecordID
    public let version: Int64
    public let record: Record
    public let acks: [DeviceAck]
    public let heard: [UserHeard]
    /// By device, each with its milestones by name.
    public let reports: [DeviceReport]

    public init(
        _ id: RecordID, version: Int64, record: Record, acks: [DeviceAck] = [], heard: [UserHeard] = [],
        reports: [DeviceReport] = []
    ) {
        self.id = id
        self.version = version
        self.record = record
        self.acks = acks
        self.heard = heard
        self.reports = reports
    }
}

extension StoredRecord {
    /// There is a call under the id, and no alias, forgotten cancel or void record.
    public var isCall: Bool {
        if case .call = record { true } else { false }
    }
}

/// The last revision that a device acknowledged, in the session in which it did.
public struct DeviceAck: Equatable, Sendable {
    public let device: DeviceAddress
    public let session: String
    public let revision: Int

    /// Sessions are compared as bytes, as every store does.
    public func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    public init(device: DeviceAddress, session: String, revision: Int) {
        self.device = device
        self.session = session
        self.revision = revision
    }
}

/// When a member was last heard of.
public struct UserHeard: Equatable, Sendable {
    public let userID: UserID
    public let at: Milliseconds

    public init(userID: UserID, at: Milliseconds) {
        self.userID = userID
        self.at = at
    }
}

/// Something that is merged beside a call: the higher revision of the same session wins, the later time wins, a
/// milestone replaces the one of the same device and name.
public enum Note: Equatable, Sendable {
    case ack(CallID, DeviceAck)
    case heard(CallID, UserHeard)
    case milestone(CallID, DeviceAddress, Milestone)
}

/// Where a call stands in its user's history.
public struct HistoryPlace: Equatable, Sendable, Comparable {
    public let createdAt: Milliseconds
    public let callID: CallID

    public init(createdAt: Milliseconds, callID: CallID) {
        self.createdAt = createdAt
        self.callID = callID
    }

    /// Whether the call is older.
    public static func < (lhs: HistoryPlace, rhs: HistoryPlace) -> Bool {
        (lhs.createdAt, lhs.callID) < (rhs.createdAt, rhs.callID)
    }
}

extension HistoryPlace {
    /// One text for each: the creation, "-", the id.
    package var text: String { "\(createdAt)-\(callID)" }

    /// Nil when `text` is none of these.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let createdAt = UInt64(parts[0]), createdAt <= Int64.max,
            let callID = CallID(String(parts[1]))
        else { return nil }
        self.init(createdAt: Milliseconds(createdAt), callID: callID)
        // Numbers have more than one spelling.
        guard self.text == text else { return nil }
    }
}

/// New entries of one call's timeline.
public struct CallTrace: Equatable, Sendable {
    public let callID: CallID
    public var entries: [TraceEntry]

    public init(_ callID: CallID, _ entries: [TraceEntry]) {
        self.callID = callID
        self.entries = entries
    }
}

/// Something of which there is one in all, and which a call may hold.
public enum Claim: Hashable, Sendable {
    /// The user is accepted in this live advanced call.
    case activeCall(of: UserID)
    /// The user rings the other one alone; looked at by the other one's invitation (section 3, Glare).
    case ringing(from: UserID, to: UserID)
}

/// Which call holds a claim, and at which version of its record it took it: a call that was fenced meanwhile and takes its claim again
/// is another holder, so that whoever has fenced it does not take the claim from under its next commit.
public struct ClaimHolder: Hashable, Sendable {
    public let callID: CallID
    /// 0 in a store where a claim is taken in one step with the commit.
    public let version: Int64

    public init(_ callID: CallID, version: Int64) {
        self.callID = callID
        self.version = version
    }
}

/// A user does not want to hear of another one.
public struct Block: Hashable, Sendable {
    public let user: UserID
    public let blocked: UserID

    public init(by user: UserID, of blocked: UserID) {
        self.user = user
        self.blocked = blocked
    }
}

/// One record to be written.
public struct Commit: Sendable {
    public let id: RecordID
    public let record: Record
    /// The version that was loaded; 0 when there was no record.
    public let expected: Int64
    public let deadline: Milliseconds?
    /// When the record may be removed; nil while the call is live.
    public let expiresAt: Milliseconds?
    /// Written together with the record.
    public var notes: [Note] = []
    /// The commit fails unless each of these is held as given.
    public var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    /// Taken by this call.
    public var claims: [Claim] = []
    /// Given up, if this call holds them.
    public var releases: [Claim] = []
    /// The users who are new in the call: it is entered into their indexes before it is written.
    public var newMembers: [UserID] = []
    /// The users in whose lists the call stands, and must not any more.
    public var formerMembers: [UserID] = []
    /// What users have asked of others, until when it counts, and what is settled.
    public var asked: [(what: Outstanding, until: Milliseconds)] = []
    public var settled: [Outstanding] = []
    /// The call was live before this commit and is not after it.
    public var hasJustEnded = false
    /// Outside of these moments, by its own clock, the store refuses the commit: whoever decided it stood still meanwhile, or has a wrong
    /// clock.
    public var validity: ClosedRange<Milliseconds>?

    public init(
        _ id: RecordID, record: Record, expected: Int64, deadline: Milliseconds?, expiresAt: Milliseconds?
    ) {
        self.id = id
        self.record = record
        self.expected = expected
        self.deadline = deadline
        self.expiresAt = expiresAt
    }

    /// As whom it takes claims.
    var holder: ClaimHolder? { id.callID.map { ClaimHolder($0, version: expected) } }

    /// The users in whose index the call stands.
    var members: [UserID] {
        if case .call(let call) = record { call.participants } else { [] }
    }
}

extension Note {
    /// The call beside which it is kept.
    public var callID: CallID {
        switch self {
        case .ack(let callID, _): callID
        case .heard(let callID, _): callID
        case .milestone(let callID, _, _): callID
        }
    }
}

public enum CommitOutcome: Equatable, Sendable {
    /// Nothing was written.
    var isLost: Bool { if case .committed = self { false } else { true } }

    case committed(version: Int64)
    /// Somebody else changed the record: load it and judge again.
    case conflict
    /// A claim is held by another call than expected.
    case claimHeld
    /// It came outside of its `validity`.
    case stale
}

/// One of a device's sessions, from `online: true` to `online: false` (docs/protocol.md, section 1).
public struct DeviceSession: Sendable {
    public let device: DeviceAddress
    /// As the device named it; empty when it did not, which is never remembered as over.
    public let id: String

    public init(_ device: DeviceAddress, id: String) {
        self.device = device
        self.id = id
    }
}

/// What is known of a device's presence (section 1).
public struct DevicePresence: Equatable, Sendable {
    public let device: DeviceAddress
    public let session: String
    public let isOnline: Bool
    /// When the session began.
    public let since: Milliseconds
    /// When the device last renewed its lease.
    public let seen: Milliseconds

    public init(device: DeviceAddress, session: String, isOnline: Bool, since: Milliseconds, seen: Milliseconds) {
        self.device = device
        self.session = session
        self.isOnline = isOnline
        self.since = since
        self.seen = seen
    }

    /// Sessions are compared as bytes, as every store does.
    public func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    /// Online, and heard of within the lease.
    public func isReachable(at now: Milliseconds, lease: Milliseconds) -> Bool { isOnline && seen + lease > now }
}

/// The bounds of presence (section 1).
public struct PresencePolicy: Sendable, Equatable {
    /// How long a device counts as online without a sign of life.
    public var lease: Milliseconds = 600_000
    /// How long a session that is over is remembered, so that a late `online: true` of it is ignored.
    public var sessionMemory: Milliseconds = 120_000
    /// How many devices of a user may be online; one more replaces the one silent longest.
    public var maxDevices = 10

    public init() {}
}

public enum OnlineOutcome: Equatable, Sendable {
    /// The session is the device's current one.
    case current
    /// The session is over: a late message, to be ignored.
    case over
}

extension DeviceReport {
    /// Each device's milestones, both in a certain order.
    static func sorted(_ milestones: [DeviceAddress: [String: Int64]]) -> [DeviceReport] {
        milestones.sorted { $0.key < $1.key }.map { device, times in
            DeviceReport(
                device: device,
                milestones: times.sorted { $0.key < $1.key }.map { Milestone(name: $0.key, milliseconds: $0.value) })
        }
    }
}
