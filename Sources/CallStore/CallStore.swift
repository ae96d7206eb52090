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

/// New entries of one call's timeline.
public struct CallTrace: Equatable, Sendable {
    public let callID: CallID
    public var entries: [TraceEntry]

    public init(_ callID: CallID, _ entries: [TraceEntry]) {
        self.callID = callID
        self.entries = entries
    }
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
