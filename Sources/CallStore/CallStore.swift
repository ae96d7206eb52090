import CallCore
import SignalingProtocol

/// The store in full, with all roles that coordinators need: here they keep the data that must survive a coordinator
/// (docs/store.md).
///
/// The methods take batches, and throw `StoreError` when the store cannot answer. The store serves queries in the order
/// of the method calls, even while earlier callers still wait for their answers.
package protocol CallStore:
    RecordStore, UserStore, PresenceStore, BrokerStore, TimelineStore, EndpointStore, RegistrationStore
{
    /// A short name of the store for logs, without credentials.
    var summary: String { get }

    /// The name and version of the store's server or library, as "Redis 7.0.15"; nil while unknown.
    var version: String? { get }

    /// A text for the log that says how much a crash of the store's machine may lose; nil while the durability is not
    /// known.
    var durability: String? { get }

    /// The known settings of the store that may lose calls.
    var hazards: [StoreHazard] { get }

    /// How full the store is, as of some seconds ago; nil while unknown.
    var fill: StoreFill? { get }

    /// Counts what is live in the whole deployment, from an index. A call of a coordinator that keeps no index is
    /// counted when the number of its pending invitations changes.
    func liveCounts() async throws(StoreError) -> LiveCounts

    /// Removes some entries of the index that are out of date, since a process of an older version keeps no index. Each
    /// coordinator calls this about once a minute.
    func tidyLiveCounts() async throws(StoreError)

    /// Whether this coordinator may lose its connection to the store while other coordinators keep theirs.
    var isShared: Bool { get }

    /// Whether a commit waits for replicas. A record that was read may then contain another coordinator's write that no
    /// replica has yet, so a response that tells of an earlier change needs a commit too.
    var waitsForReplicas: Bool { get }

    /// The number of times since the start that this process has waited for an answer of the store.
    var roundTrips: Int { get }
}

/// The store's clock. All coordinators write and serve deadlines by this clock.
package protocol StoreTime: AnswersLater {
    func now() async throws(StoreError) -> Milliseconds

    /// The store's time as far as this process knows it without a query; nil while unknown.
    var time: Milliseconds? { get }

    /// Asks the store for its time and checks whether the store's clock was set. Callers should call this about every
    /// half a second as long as they have work for the store. Returns whether the call wrote to the store, and so
    /// showed that the store takes writes.
    @discardableResult
    func lookAtClock() async throws(StoreError) -> Bool

    /// The difference between this machine's clock and the store's time, in milliseconds.
    var clockSkew: Milliseconds { get }

    /// The number of times that any coordinator found the clock of the store's machine to be set, and the last
    /// difference in milliseconds.
    var clockSteps: (count: Int, last: Milliseconds) { get }
}

/// Records and the data beside them: deadlines, claims and notes. A commit is a compare-and-set on the record's
/// version. Notes are merged and never conflict.
package protocol RecordStore: StoreTime {
    /// Answers all queries in a single round trip. The answers are in the order of the queries.
    func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer]

    /// Writes each record unless another writer has changed the record meanwhile, merges the notes into the data beside
    /// the calls, and then answers the queries, in as few round trips as possible. The commits do not
    /// depend on each other.
    ///
    /// After a throw, each commit may have been written or not. A caller that repeats the commits learns the result.
    func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) async throws(StoreError) -> Written

    /// Returns the records whose deadline is at or before `moment`, the earliest first, without the records in
    /// `besides`, which are set aside because they cannot be served.
    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) async throws(StoreError) -> [RecordID]

    /// Returns the given records whose deadline is at or before `moment`, in the given order.
    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID]

    /// Removes up to `limit` records whose retention has ended (ended calls, early cancels, finished peer messages).
    /// Also removes expired presence and registrations. Returns the number of removed records.
    func clean(limit: Int) async throws(StoreError) -> Int
}

/// Data of a user: the list of calls, the profile, the blocks, and the counts for the user's limits.
package protocol UserStore: AnswersLater {
    /// Returns the user's stored calls behind `place`, the newest first; calls of the same time stand in descending
    /// order of their ids.
    func history(of user: UserID, after place: HistoryPlace?, limit: Int) async throws(StoreError) -> [HistoryPlace]

    /// Changes a user's profile and returns the new profile.
    func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile

    /// Adds or removes a block of a user. Returns false, without a change, when the user's block list is full.
    func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool

    /// Returns the users whom the user has blocked, in the order of their ids.
    func blockList(of user: UserID) async throws(StoreError) -> [UserID]

    /// Removes from the user's list of calls the entries of calls that are not live or do not have the user as a
    /// member. Such entries remain when a coordinator dies, or loses against another writer, in the middle of a commit.
    /// Returns the number of wrong entries. More of these may exist until the result is 0.
    func tidyCalls(of user: UserID) async throws(StoreError) -> Int

    /// Removes the data of a user: the profile, blocks by and of the user, presence, push registrations, the lists of
    /// calls and messages, and the queued peer messages. Also removes, of the listed calls, the timelines and the acks,
    /// reports and pushes of the user's devices. The calls themselves stay, because they also belong to their other
    /// members.
    func erase(_ user: UserID) async throws(StoreError)

    /// Returns what administrators have set (`AdminStore`).
    func adminSettings() async throws(StoreError) -> AdminSettings

    /// Adds bytes to the byte counts that each user has for each period. These counts say how much the store keeps
    /// because of a user.
    func charge(_ charges: [StoredCharge]) async throws(StoreError)
}

/// The devices that are online. `UserPresence` defines the rules.
package protocol PresenceStore: AnswersLater {
    /// Records sessions whose devices published `online: true`.
    func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [OnlineOutcome]

    /// Records sessions whose devices published `online: false`, or whose wills the broker published. Returns for each
    /// whether the device's current session has ended.
    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool]

    /// Extends the expiry of devices that sent a message.
    func renew(_ devices: [DeviceAddress]) async throws(StoreError)
}

/// The timelines of calls (docs/protocol.md, section 6).
package protocol TimelineStore: AnswersLater {
    /// Adds entries to the timelines of calls. A timeline is kept for `life` milliseconds after its last write, and
    /// holds the latest `Limits.traceEntries` entries by their times, regardless of the order in which coordinators
    /// write.
    func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError)

    /// Returns the kept part of the call's timeline, in the order of the times. Entries of the same coordinator keep
    /// their order.
    func timeline(of callID: CallID) async throws(StoreError) -> Timeline
}

/// The webhook endpoints and the bounds of their outboxes. Coordinators see to both, also in deployments where another
/// process delivers. `Outbox` defines the rules.
package protocol EndpointStore: AnswersLater {
    /// Returns all endpoints that settings have ever named and that no operator has removed, in the order of their
    /// names.
    func endpoints() async throws(StoreError) -> [KeptEndpoint]

    /// Stores endpoints as the settings describe them.
    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError)

    /// Enforces the bounds of an endpoint's outbox, in steps when much exceeds the bounds. Callers must call again as
    /// long as the result reports a loss.
    func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss
}

extension StoreTime {
    package var clockSkew: Milliseconds { 0 }
    package var clockSteps: (count: Int, last: Milliseconds) { (0, 0) }
    package func lookAtClock() async throws(StoreError) -> Bool { false }
}

extension RecordStore {
    package func due(before moment: Milliseconds, limit: Int) async throws(StoreError) -> [RecordID] {
        try await due(before: moment, limit: limit, besides: [])
    }
}

extension UserStore {
    package func adminSettings() async throws(StoreError) -> AdminSettings { AdminSettings() }
    package func tidyCalls(of user: UserID) async throws(StoreError) -> Int { 0 }
}

extension CallStore {
    package var isShared: Bool { false }
    package var waitsForReplicas: Bool { false }
    package var version: String? { nil }
    package var durability: String? { nil }
    package var hazards: [StoreHazard] { [] }
    package var roundTrips: Int { 0 }
    package var fill: StoreFill? { nil }
}

/// The size of a store's data, in bytes.
package struct StoreFill: Equatable, Sendable {
    package let bytes: Int64
    /// The size at which the store takes no more writes; nil when the store has no limit.
    package let limit: Int64?

    package init(bytes: Int64, limit: Int64?) {
        self.bytes = bytes
        self.limit = limit
    }
}

extension AnswersLater {
    package var answersAtOnce: Bool { true }
    package var socket: StoreSocket? { nil }
    package func receive() {}
}

/// A store or store role that takes queries and may answer later.
package protocol AnswersLater: AnyObject {
    /// Whether each method has its answer when the method returns, so that no other work runs in between.
    var answersAtOnce: Bool { get }

    /// The socket on which answers arrive; nil for a store that answers at once, and while no query is open.
    var socket: StoreSocket? { get }

    /// Takes the answers that have arrived and gives up queries without an answer in time. The waiting work continues
    /// with the next run of the executor.
    func receive()
}

/// The socket on which a store's answers arrive.
package struct StoreSocket: Equatable, Sendable {
    package let descriptor: Int32
    /// Whether some bytes still wait to be sent.
    package let waitsToSend: Bool
    /// The time, by the boot clock, at which the oldest open query is given up; nil while no query is open.
    package let deadline: Milliseconds?

    package init(descriptor: Int32, waitsToSend: Bool, deadline: Milliseconds?) {
        self.descriptor = descriptor
        self.waitsToSend = waitsToSend
        self.deadline = deadline
    }
}

/// The error of a store that cannot serve a query or a write now.
package struct StoreError: Error, Sendable, CustomStringConvertible {
    /// The kind of the failure, from which the caller's reaction follows.
    package enum Code: String, Sendable, CaseIterable {
        /// The connection is missing, or the answer did not come in time. A write may have been made or not.
        case unreachable
        /// The store answers with an error, or with an answer that makes no sense.
        case failed
        /// A write failed, or is not known to be as durable as required. A successful read does not show that writes
        /// succeed again.
        case notWritten
        /// The store belongs to another deployment (`DeploymentStamp`) or has another format (`StoreFormat`), and must
        /// not be used.
        case foreign
        /// The store answers, but the operation did not finish: other writers were faster each time, or this process
        /// was stopped for too long.
        case unsettled
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// New entries of a call's timeline.
package struct CallTrace: Equatable, Sendable {
    package let callID: CallID
    package var entries: [TraceEntry]

    package init(_ callID: CallID, _ entries: [TraceEntry]) {
        self.callID = callID
        self.entries = entries
    }
}

extension Timeline {
    /// Adds entries and keeps the latest `Limits.traceEntries` entries by their times.
    package mutating func add(_ new: [TraceEntry]) {
        entries += new
        let excess = entries.count - Limits.traceEntries
        guard excess > 0 else { return }
        entries = Array(entries.inOrderOfTime().dropFirst(excess))
        omitted += excess
    }
}

extension DeviceReport {
    /// Returns the milestones in the order of the devices, and of each device in the order of their names.
    package static func sorted(_ milestones: [DeviceAddress: [String: Int64]]) -> [DeviceReport] {
        milestones.sorted { $0.key < $1.key }.map { device, times in
            DeviceReport(
                device: device,
                milestones: times.sorted { $0.key < $1.key }.map { Milestone(name: $0.key, milliseconds: $0.value) })
        }
    }
}
