import CallCore
import SignalingProtocol

/// Where coordinators keep what must survive them (docs/architecture.md, Store).
///
/// The methods block, take batches, and throw `StoreError` when the store cannot answer. A commit is a compare-and-set
/// on the record's version; notes are merged by maximum and never conflict.
public protocol CallStore: AnyObject {
    /// The store's clock, by which all coordinators write and serve deadlines.
    func now() throws(StoreError) -> Milliseconds

    /// The records under these ids, in this order; nil where there is none.
    func load(_ callIDs: [CallID]) throws(StoreError) -> [StoredCall?]

    /// Writes each record if nobody changed it meanwhile. The commits do not depend on each other.
    func commit(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome]

    /// Merges acknowledgments and heartbeats into what is kept beside the calls.
    func note(_ notes: [Note]) throws(StoreError)

    /// Calls whose deadline lies at or before `moment`, the earliest first.
    func due(before moment: Milliseconds, limit: Int) throws(StoreError) -> [CallID]

    /// The user's calls that are live or ended after `moment`, the newest first.
    func calls(of user: UserID, endedAfter moment: Milliseconds, limit: Int) throws(StoreError) -> [CallID]

    /// Which call holds each claim.
    func holders(of claims: [Claim]) throws(StoreError) -> [CallID?]

    /// The devices of each user, also those that are offline but not yet forgotten.
    func devices(of users: [UserID]) throws(StoreError) -> [[DevicePresence]]

    /// A device published `online: true`.
    func cameOnline(_ device: DeviceAddress, session: String, policy: PresencePolicy) throws(StoreError)
        -> OnlineOutcome

    /// A device published `online: false`, or its will was published. True when that ended its current session.
    func wentOffline(_ device: DeviceAddress, session: String, policy: PresencePolicy) throws(StoreError) -> Bool

    /// Renews the lease of devices that sent something.
    func renew(_ devices: [DeviceAddress]) throws(StoreError)

    /// Removes up to `limit` things whose time is over: ended calls, forgotten cancels, expired presence. Returns how
    /// many were removed.
    func clean(limit: Int) throws(StoreError) -> Int

    /// A short name for logs, without credentials.
    var summary: String { get }

    /// What a crash of the store's machine may lose, for the log; nil while that is not known.
    var durability: String? { get }

    /// How far the store's clock is from this machine's, in milliseconds; 0 for a store on this machine.
    var clockSkew: Milliseconds { get }
}

extension CallStore {
    public var clockSkew: Milliseconds { 0 }
    public var durability: String? { nil }
}

/// The store cannot answer now.
public struct StoreError: Error, Sendable, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// What stands under a call id.
public enum CallRecord: Equatable, Sendable {
    case call(Call)
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
public struct StoredCall: Equatable, Sendable {
    public let callID: CallID
    public let version: Int64
    public let record: CallRecord
    public let acks: [DeviceAck]
    public let heard: [UserHeard]

    public init(callID: CallID, version: Int64, record: CallRecord, acks: [DeviceAck] = [], heard: [UserHeard] = []) {
        self.callID = callID
        self.version = version
        self.record = record
        self.acks = acks
        self.heard = heard
    }
}

extension StoredCall {
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

/// Something that is merged beside a call: the higher revision of the same session wins, the later time wins.
public enum Note: Equatable, Sendable {
    case ack(CallID, DeviceAck)
    case heard(CallID, UserHeard)
}

/// Something of which there is one in all, and which a call may hold.
public enum Claim: Hashable, Sendable {
    /// The user is accepted in this live advanced call.
    case activeCall(of: UserID)
    /// The user rings the other one alone; looked at by the other one's invitation (section 3, Glare).
    case ringing(from: UserID, to: UserID)
}

/// One record to be written.
public struct Commit: Sendable {
    public let callID: CallID
    public let record: CallRecord
    /// The version that was loaded; 0 when there was no record.
    public let expected: Int64
    public let deadline: Milliseconds?
    /// When the record may be removed; nil while the call is live.
    public let expiresAt: Milliseconds?
    /// Written together with the record.
    public var notes: [Note] = []
    /// The commit fails unless each of these is held as given, or by this call.
    public var expectedHolders: [(claim: Claim, holder: CallID?)] = []
    /// Taken by this call.
    public var claims: [Claim] = []
    /// Given up, if this call holds them.
    public var releases: [Claim] = []
    /// The users who are new in the call: it is entered into their indexes before it is written.
    public var newMembers: [UserID] = []
    /// The call was live before this commit and is not after it.
    public var hasJustEnded = false

    public init(
        callID: CallID, record: CallRecord, expected: Int64, deadline: Milliseconds?, expiresAt: Milliseconds?
    ) {
        self.callID = callID
        self.record = record
        self.expected = expected
        self.deadline = deadline
        self.expiresAt = expiresAt
    }

    /// The users in whose index the call stands.
    var members: [UserID] {
        if case .call(let call) = record { call.members.map(\.userID) } else { [] }
    }
}

extension Note {
    /// The call beside which it is kept.
    public var callID: CallID {
        switch self {
        case .ack(let callID, _): callID
        case .heard(let callID, _): callID
        }
    }
}

public enum CommitOutcome: Equatable, Sendable {
    case committed(version: Int64)
    /// Somebody else changed the record: load it and judge again.
    case conflict
    /// A claim is held by another call than expected.
    case claimHeld
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
